#include "worker/http/fetch.h"

#include <curl/curl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status.h"
#include "worker/http/curl_global.h"
#include "worker/http/response_head.h"
#include "worker/http/url.h"

namespace headrace::http {
namespace {

constexpr long kMaxRedirects = 5;
// An attempt that brought this much more of a file does not count against the attempts. Chosen.
constexpr int64_t kProgressBytes = int64_t{1} << 20;

struct CurlFree {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
struct FileClose {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FilePtr = std::unique_ptr<std::FILE, FileClose>;

// What one attempt came to.
enum class Attempt { kDone, kAgain, kFinal };

// One transfer in several attempts; download and upload differ in Prepare() and Judge().
class Transfer {
 public:
  Transfer(Url url, const FetchOptions& options, std::string ca_bundle)
      : url_(std::move(url)), options_(options), ca_bundle_(std::move(ca_bundle)) {
    shown_ = absl::StrCat(url_.tls ? "https://" : "http://", url_.authority(), url_.path);
    // One host decides about the proxy: redirects to others follow libcurl's own rules.
    if (!options_.use_environment_proxies) proxy_ = "";
  }
  virtual ~Transfer() = default;

  absl::Status Run();

 protected:
  // Sets what is special about this attempt. Not OK: the transfer is over.
  virtual absl::Status Prepare(CURL* easy) = 0;
  // Looks at the end of an attempt; sets error_ unless kDone.
  virtual Attempt Judge(CURLcode code, long status) = 0;

  Attempt Fail(Attempt attempt, absl::StatusCode code, absl::string_view what) {
    error_ = absl::Status(code, absl::StrCat(shown_, ": ", what));
    return attempt;
  }
  // The attempt brought the transfer a good part further.
  virtual bool Progressed() const { return false; }
  // For an answer that is neither success nor special.
  Attempt JudgeStatus(long status);
  Attempt JudgeTransport(CURLcode code);

  const Url url_;
  const FetchOptions& options_;
  std::string shown_;  // the URL without its query
  absl::Status error_;
  char curl_error_[CURL_ERROR_SIZE] = "";

 private:
  void SetCommon(CURL* easy, absl::Duration left);
  bool stopped() const {
    return options_.stopped != nullptr && options_.stopped->load(std::memory_order_relaxed);
  }

  const std::string ca_bundle_;
  std::optional<std::string> proxy_;
};

template <typename T>
void Set(CURL* easy, CURLoption option, T value) {
  curl_easy_setopt(easy, option, value);
}

void Transfer::SetCommon(CURL* easy, absl::Duration left) {
  curl_error_[0] = '\0';
  Set(easy, CURLOPT_URL, url_.ToString().c_str());
  Set(easy, CURLOPT_ERRORBUFFER, curl_error_);
  Set(easy, CURLOPT_NOSIGNAL, 1L);
  Set(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  Set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  Set(easy, CURLOPT_REDIR_PROTOCOLS_STR, url_.tls ? "https" : "http,https");
  Set(easy, CURLOPT_FOLLOWLOCATION, 1L);
  Set(easy, CURLOPT_MAXREDIRS, kMaxRedirects);
  Set(easy, CURLOPT_CAPATH, nullptr);
  if (!ca_bundle_.empty()) Set(easy, CURLOPT_CAINFO, ca_bundle_.c_str());
  if (proxy_.has_value()) Set(easy, CURLOPT_PROXY, proxy_->c_str());
  Set(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  Set(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  Set(easy, CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(absl::ToInt64Milliseconds(options_.connect_timeout)));
  Set(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  Set(easy, CURLOPT_LOW_SPEED_TIME,
      std::max(1L, static_cast<long>(absl::ToInt64Seconds(options_.silence_timeout))));
  if (options_.stopped != nullptr) {
    // libcurl asks about once a second, also when nothing comes.
    Set(easy, CURLOPT_NOPROGRESS, 0L);
    Set(easy, CURLOPT_XFERINFODATA, static_cast<void*>(this));
    Set(
        easy, CURLOPT_XFERINFOFUNCTION,
        +[](void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
          return static_cast<Transfer*>(self)->stopped() ? 1 : 0;
        });
  }
  constexpr int64_t kMost = INT32_MAX;
  Set(easy, CURLOPT_TIMEOUT_MS,
      static_cast<long>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left), 1, kMost)));
}

absl::Status Transfer::Run() {
  const absl::Time deadline = absl::Now() + options_.total_timeout;
  absl::Duration delay = options_.first_delay;
  const std::unique_ptr<CURL, CurlFree> easy(curl_easy_init());
  for (int attempt = 1;; ++attempt) {
    if (stopped()) return absl::CancelledError(absl::StrCat(shown_, ": stopped"));
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat(shown_, ": not done within the total time",
                       error_.ok() ? "" : "; last: ", error_.message()));
    }
    curl_easy_reset(easy.get());
    SetCommon(easy.get(), left);
    HR_RETURN_IF_ERROR(Prepare(easy.get()));
    const CURLcode code = curl_easy_perform(easy.get());
    long status = 0;
    curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
    switch (Judge(code, status)) {
      case Attempt::kDone:
        return absl::OkStatus();
      case Attempt::kFinal:
        return error_;
      case Attempt::kAgain:
        break;
    }
    if (Progressed()) {
      attempt = 0;
      delay = options_.first_delay;
    } else if (attempt >= options_.attempts) {
      return error_;
    }
    absl::SleepFor(std::min(delay, deadline - absl::Now()));
    delay *= 2;
  }
}

Attempt Transfer::JudgeStatus(long status) {
  const std::string what = absl::StrCat("HTTP status ", status);
  if (status == 404 || status == 410)
    return Fail(Attempt::kFinal, absl::StatusCode::kNotFound, what);
  if (status == 401 || status == 403) {
    return Fail(Attempt::kFinal, absl::StatusCode::kPermissionDenied, what);
  }
  if (status >= 500 || status == 408 || status == 429) {
    return Fail(Attempt::kAgain, absl::StatusCode::kUnavailable, what);
  }
  return Fail(Attempt::kFinal, absl::StatusCode::kFailedPrecondition, what);
}

Attempt Transfer::JudgeTransport(CURLcode code) {
  const std::string what =
      absl::StrCat(curl_error_[0] != '\0' ? curl_error_ : curl_easy_strerror(code));
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return Fail(Attempt::kFinal, absl::StatusCode::kFailedPrecondition, what);
    default:
      return Fail(Attempt::kAgain, absl::StatusCode::kUnavailable, what);
  }
}

class Download final : public Transfer {
 public:
  Download(Url url, const FetchOptions& options, std::string ca_bundle, std::FILE* file)
      : Transfer(std::move(url), options, std::move(ca_bundle)), file_(file) {}

  // After Run() has ended well.
  FetchedFile fetched() const { return {written_, HeaderOf("etag"), HeaderOf("last-modified")}; }

 private:
  std::string HeaderOf(absl::string_view name) const {
    const std::string* value = FindHeader(answer_, name);
    return value == nullptr ? std::string() : *value;
  }
  absl::Status Prepare(CURL* easy) override;
  Attempt Judge(CURLcode code, long status) override;
  bool Progressed() const override {
    return !validator_.empty() && written_ - resumed_at_ >= kProgressBytes;
  }
  bool Begin();
  bool RangeBeginsAt(int64_t offset) const;
  size_t TakeHeader(absl::string_view line);
  size_t TakeBody(absl::string_view piece);

  std::FILE* const file_;
  int64_t written_ = 0;     // bytes in the file
  int64_t resumed_at_ = 0;  // written_ when the attempt began
  std::string validator_;   // ETag or Last-Modified of the bytes in the file
  std::unique_ptr<curl_slist, CurlFree> headers_;
  ResponseHead head_;
  Headers answer_;
  bool begun_ = false;  // the attempt's first byte of content has come
  absl::Status stop_;   // why a callback ended the attempt for good
};

absl::Status Download::Prepare(CURL* easy) {
  head_ = ResponseHead();
  answer_.clear();
  begun_ = false;
  resumed_at_ = validator_.empty() ? 0 : written_;
  headers_ = nullptr;
  const auto add_header = [this](const std::string& line) {
    headers_.reset(curl_slist_append(headers_.release(), line.c_str()));
  };
  // libcurl drops this header on a redirect to another host, port or scheme (since 7.83).
  if (!options_.bearer.empty()) {
    add_header(absl::StrCat("Authorization: Bearer ", options_.bearer.Reveal()));
  }
  if (resumed_at_ > 0) {
    // If-Range: the rest of the same file, or all of another one (RFC 9110 section 13.1.5).
    add_header(absl::StrCat("If-Range: ", validator_));
    Set(easy, CURLOPT_RANGE, absl::StrCat(resumed_at_, "-").c_str());
  }
  Set(easy, CURLOPT_HTTPHEADER, headers_.get());
  Set(easy, CURLOPT_HEADERDATA, static_cast<void*>(this));
  Set(
      easy, CURLOPT_HEADERFUNCTION, +[](char* data, size_t size, size_t count, void* self) {
        return static_cast<Download*>(self)->TakeHeader(absl::string_view(data, size * count));
      });
  Set(easy, CURLOPT_WRITEDATA, static_cast<void*>(this));
  Set(
      easy, CURLOPT_WRITEFUNCTION, +[](char* data, size_t size, size_t count, void* self) {
        return static_cast<Download*>(self)->TakeBody(absl::string_view(data, size * count));
      });
  return absl::OkStatus();
}

size_t Download::TakeHeader(absl::string_view line) {
  // A redirect was followed: the next response begins.
  if (head_.complete() && absl::StartsWith(line, "HTTP/")) head_ = ResponseHead();
  switch (head_.AddLine(line)) {
    case ResponseHead::Event::kMore:
      return line.size();
    case ResponseHead::Event::kHeaders:
      answer_ = std::move(head_.headers());
      return line.size();
    case ResponseHead::Event::kBad:
      break;
  }
  return CURL_WRITEFUNC_ERROR;
}

bool Download::RangeBeginsAt(int64_t offset) const {
  const std::string* range = FindHeader(answer_, "content-range");
  return range != nullptr && absl::StartsWith(*range, absl::StrCat("bytes ", offset, "-"));
}

// The first content of an attempt: goes on in the file, or begins it anew. False to give up.
bool Download::Begin() {
  begun_ = true;
  if (head_.status() == 206 && resumed_at_ > 0 && RangeBeginsAt(resumed_at_)) return true;
  if (head_.status() != 200) {
    stop_ = absl::FailedPreconditionError(
        absl::StrCat(shown_, ": the server answers with another range than was asked for"));
    return false;
  }
  written_ = 0;
  std::rewind(file_);
  if (ftruncate(fileno(file_), 0) != 0) {
    stop_ = ErrnoStatus(errno, "truncate");
    return false;
  }
  // A weak ETag does not promise equal bytes, so it cannot join two halves.
  const std::string* etag = FindHeader(answer_, "etag");
  const std::string* modified = FindHeader(answer_, "last-modified");
  validator_.clear();
  if (etag != nullptr && absl::StartsWith(*etag, "\"")) {
    validator_ = *etag;
  } else if (modified != nullptr) {
    validator_ = *modified;
  }
  return true;
}

size_t Download::TakeBody(absl::string_view piece) {
  // The bodies of errors and redirects are of no use.
  if (head_.status() / 100 != 2) return piece.size();
  if (!begun_ && !Begin()) return CURL_WRITEFUNC_ERROR;
  if (written_ + static_cast<int64_t>(piece.size()) > options_.max_bytes) {
    stop_ = absl::ResourceExhaustedError(
        absl::StrCat(shown_, ": larger than the limit of ", options_.max_bytes, " bytes"));
    return CURL_WRITEFUNC_ERROR;
  }
  if (std::fwrite(piece.data(), 1, piece.size(), file_) != piece.size()) {
    stop_ = ErrnoStatus(errno, "write");
    return CURL_WRITEFUNC_ERROR;
  }
  written_ += static_cast<int64_t>(piece.size());
  return piece.size();
}

Attempt Download::Judge(CURLcode code, long status) {
  if (!stop_.ok()) {
    error_ = stop_;
    return Attempt::kFinal;
  }
  if (code != CURLE_OK) return JudgeTransport(code);
  if (status == 200 || status == 206) {
    // An empty file has no first byte to begin it with.
    if (!begun_ && !Begin()) {
      error_ = stop_;
      return Attempt::kFinal;
    }
    return Attempt::kDone;
  }
  if (status == 416 && resumed_at_ > 0) {
    // The file shrank meanwhile: once more from the beginning.
    validator_.clear();
    return Fail(Attempt::kAgain, absl::StatusCode::kUnavailable, "the file changed meanwhile");
  }
  return JudgeStatus(status);
}

class Upload final : public Transfer {
 public:
  Upload(Url url, const FetchOptions& options, std::string ca_bundle, std::FILE* file,
         int64_t bytes)
      : Transfer(std::move(url), options, std::move(ca_bundle)), file_(file), bytes_(bytes) {}

 private:
  absl::Status Prepare(CURL* easy) override {
    std::rewind(file_);
    headers_.reset(curl_slist_append(nullptr, "Expect:"));
    Set(easy, CURLOPT_HTTPHEADER, headers_.get());
    Set(easy, CURLOPT_UPLOAD, 1L);
    Set(easy, CURLOPT_READDATA, static_cast<void*>(file_));  // libcurl's default reader is fread
    Set(easy, CURLOPT_SEEKDATA, static_cast<void*>(file_));
    Set(
        easy, CURLOPT_SEEKFUNCTION, +[](void* file, curl_off_t offset, int origin) {
          return fseeko(static_cast<std::FILE*>(file), offset, origin) == 0 ? CURL_SEEKFUNC_OK
                                                                            : CURL_SEEKFUNC_FAIL;
        });
    Set(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(bytes_));
    Set(
        easy, CURLOPT_WRITEFUNCTION,
        +[](char*, size_t size, size_t count, void*) { return size * count; });
    return absl::OkStatus();
  }
  Attempt Judge(CURLcode code, long status) override {
    if (code != CURLE_OK) return JudgeTransport(code);
    return status / 100 == 2 ? Attempt::kDone : JudgeStatus(status);
  }

  std::FILE* const file_;
  const int64_t bytes_;
  std::unique_ptr<curl_slist, CurlFree> headers_;
};

}  // namespace

absl::Status FetchToFile(const std::string& url, const std::string& path,
                         const FetchOptions& options, FetchedFile* fetched) {
  HR_RETURN_IF_ERROR(EnsureCurl());
  HR_ASSIGN_OR_RETURN(Url parsed, ParseUrl(url));
  HR_ASSIGN_OR_RETURN(std::string ca_bundle, CaBundle(options.ca_file));
  const std::string part = path + ".part";
  FilePtr file(std::fopen(part.c_str(), "wb"));
  if (file == nullptr) return ErrnoStatus(errno, absl::StrCat("open ", part));
  Download download(std::move(parsed), options, std::move(ca_bundle), file.get());
  absl::Status status = download.Run();
  if (fetched != nullptr) *fetched = download.fetched();
  if (status.ok() && (std::fflush(file.get()) != 0 || fsync(fileno(file.get())) != 0)) {
    status = ErrnoStatus(errno, absl::StrCat("write ", part));
  }
  file.reset();
  if (status.ok() && std::rename(part.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, absl::StrCat("rename ", part));
  }
  if (!status.ok()) unlink(part.c_str());
  return status;
}

absl::Status PutFile(const std::string& url, const std::string& path, const FetchOptions& options) {
  HR_RETURN_IF_ERROR(EnsureCurl());
  HR_ASSIGN_OR_RETURN(Url parsed, ParseUrl(url));
  HR_ASSIGN_OR_RETURN(std::string ca_bundle, CaBundle(options.ca_file));
  const FilePtr file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return ErrnoStatus(errno, absl::StrCat("open ", path));
  struct stat info{};
  if (fstat(fileno(file.get()), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  return Upload(std::move(parsed), options, std::move(ca_bundle), file.get(), info.st_size).Run();
}

}  // namespace headrace::http

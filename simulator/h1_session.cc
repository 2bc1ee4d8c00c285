// HTTP/1.1, the server's side: keep-alive, one request at a time, chunked and plain bodies.
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "simulator/connection.h"

namespace headrace::simulator {
namespace {

// Bytes that a peer may send ahead while its request is being answered.
constexpr size_t kMaxPipelined = size_t{1} << 20;

absl::string_view Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 429:
      return "Too Many Requests";
    case 500:
      return "Internal Server Error";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    default:
      return "Status";
  }
}

class H1Session final : public Session, public Responder {
 public:
  explicit H1Session(Connection* connection) : connection_(connection) {}

  bool Receive(absl::string_view bytes) override;
  void Produce(std::string* out, size_t limit) override;
  bool Ended() const override { return ended_; }
  void PeerGone(Gone how) override {
    if (call_ != nullptr) call_->PeerGone(how);
  }

  void SendHead(const ResponseHead& head) override;
  void Wake() override { connection_->RequestFlush(); }
  void SendEnd() override;
  void ResetStream(uint32_t) override { connection_->CloseAfterFlush(/*reset=*/true); }
  void CloseConnection(bool reset) override { connection_->CloseAfterFlush(reset); }
  void GoAway(GoAwayKind kind) override;

 private:
  enum class Stage : uint8_t { kHead, kLengthBody, kChunkSize, kChunkData, kTrailer, kAnswering };

  // Consumes as much of in_ as it can. False on a protocol error.
  bool Parse();
  bool ParseHead(absl::string_view head);
  bool ParseHeader(absl::string_view line);
  // Answers an "expect: 100-continue".
  void Continue();
  bool ParseChunkSize(absl::string_view line);
  // The next line of in_ without its end; false when it is not there yet.
  bool TakeLine(absl::string_view* line);
  void TakeBody();
  void Answer();
  void NextRequest();

  Connection* const connection_;
  Stage stage_ = Stage::kHead;
  std::string in_;
  size_t in_at_ = 0;
  Request request_;
  uint64_t body_left_ = 0;  // of the body or the chunk
  bool chunked_in_ = false;
  bool keep_alive_ = true;
  std::string interim_;  // "100 Continue", or the response's head, to be produced next

  std::unique_ptr<Call> call_;
  bool head_sent_ = false;
  bool chunked_out_ = false;
  uint64_t declared_left_ = 0;
  bool response_ended_ = false;
  bool ended_ = false;
};

bool H1Session::Receive(absl::string_view bytes) {
  if (in_at_ == in_.size()) {
    in_.clear();
    in_at_ = 0;
  }
  in_.append(bytes.data(), bytes.size());
  if (stage_ == Stage::kAnswering) return in_.size() - in_at_ <= kMaxPipelined;
  return Parse();
}

bool H1Session::TakeLine(absl::string_view* line) {
  const size_t end = in_.find('\n', in_at_);
  if (end == std::string::npos) return false;
  *line = absl::string_view(in_).substr(in_at_, end - in_at_);
  if (absl::EndsWith(*line, "\r")) line->remove_suffix(1);
  in_at_ = end + 1;
  return true;
}

bool H1Session::Parse() {
  absl::string_view line;
  while (true) {
    switch (stage_) {
      case Stage::kHead: {
        // RFC 9112 section 2.2: empty lines before a request are ignored.
        while (in_at_ < in_.size() && (in_[in_at_] == '\r' || in_[in_at_] == '\n')) ++in_at_;
        const size_t end = in_.find("\r\n\r\n", in_at_);
        if (end == std::string::npos) return in_.size() - in_at_ <= kMaxRequestHead;
        if (end - in_at_ > kMaxRequestHead) return false;
        const size_t begin = std::exchange(in_at_, end + 4);
        if (!ParseHead(absl::string_view(in_).substr(begin, end - begin))) return false;
        break;
      }
      case Stage::kLengthBody:
      case Stage::kChunkData:
        TakeBody();
        if (body_left_ > 0) return true;
        if (stage_ == Stage::kLengthBody) {
          Answer();
        } else {
          // The line end after a chunk reads as an empty size line, which is skipped.
          stage_ = Stage::kChunkSize;
        }
        break;
      case Stage::kChunkSize:
        if (!TakeLine(&line)) return in_.size() - in_at_ <= kMaxRequestHead;
        if (line.empty()) break;
        if (!ParseChunkSize(line)) return false;
        break;
      case Stage::kTrailer:
        if (!TakeLine(&line)) return in_.size() - in_at_ <= kMaxRequestHead;
        if (line.empty()) Answer();
        break;
      case Stage::kAnswering:
        return true;
    }
  }
}

bool H1Session::ParseHead(absl::string_view head) {
  const size_t first_end = std::min(head.find("\r\n"), head.size());
  const std::vector<absl::string_view> parts = absl::StrSplit(head.substr(0, first_end), ' ');
  if (parts.size() != 3 || !absl::StartsWith(parts[2], "HTTP/1.")) return false;
  request_.method.assign(parts[0].data(), parts[0].size());
  request_.SetTarget(parts[1]);
  keep_alive_ = parts[2] == "HTTP/1.1";
  body_left_ = 0;
  chunked_in_ = false;
  head.remove_prefix(std::min(first_end + 2, head.size()));
  while (!head.empty()) {
    const size_t end = std::min(head.find("\r\n"), head.size());
    if (!ParseHeader(head.substr(0, end))) return false;
    head.remove_prefix(std::min(end + 2, head.size()));
  }
  stage_ = chunked_in_ ? Stage::kChunkSize : Stage::kLengthBody;
  if (request_.expects_continue && (chunked_in_ || body_left_ > 0)) Continue();
  return true;
}

void H1Session::Continue() {
  switch (connection_->service()->ExpectFault(request_)) {
    case Fault::kNoContinue:
      return;
    case Fault::k417:
      request_.expectation_failed = true;
      keep_alive_ = false;  // the body, if it comes all the same, is not read
      return Answer();
    default:
      interim_ += "HTTP/1.1 100 Continue\r\n\r\n";
      connection_->RequestFlush();
  }
}

bool H1Session::ParseHeader(absl::string_view line) {
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || colon == 0) return false;
  const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
  const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
  if (name == "content-length") return absl::SimpleAtoi(value, &body_left_);
  if (name == "transfer-encoding") {
    chunked_in_ = absl::EqualsIgnoreCase(value, "chunked");
    return chunked_in_;
  }
  if (name == "connection") {
    if (absl::StrContains(absl::AsciiStrToLower(value), "close")) keep_alive_ = false;
    return true;
  }
  if (name == "expect") {
    request_.expects_continue = absl::EqualsIgnoreCase(value, "100-continue");
  }
  request_.AddHeader(name, value);
  return true;
}

bool H1Session::ParseChunkSize(absl::string_view line) {
  line = absl::StripAsciiWhitespace(line.substr(0, line.find(';')));
  if (line.empty() || line.size() > 8) return false;
  if (!absl::SimpleHexAtoi(line, &body_left_)) return false;
  stage_ = body_left_ == 0 ? Stage::kTrailer : Stage::kChunkData;
  return true;
}

void H1Session::TakeBody() {
  const size_t size = static_cast<size_t>(std::min<uint64_t>(body_left_, in_.size() - in_at_));
  // What is too large is still read, so that the peer gets to see its 413.
  if (request_.body.size() + size > kMaxRequestBody) {
    request_.body_too_large = true;
  } else {
    request_.body.append(in_, in_at_, size);
  }
  in_at_ += size;
  body_left_ -= size;
}

void H1Session::Answer() {
  stage_ = Stage::kAnswering;
  head_sent_ = response_ended_ = false;
  if (connection_->CountRequest()) keep_alive_ = false;
  call_ = connection_->service()->Start(this, std::exchange(request_, {}));
}

void H1Session::SendHead(const ResponseHead& head) {
  absl::StrAppend(&interim_, "HTTP/1.1 ", head.status, " ", Reason(head.status),
                  "\r\nserver: headrace-simulator\r\ncontent-type: ", head.content_type, "\r\n");
  chunked_out_ = !head.content_length.has_value();
  if (chunked_out_) {
    absl::StrAppend(&interim_, "transfer-encoding: chunked\r\n");
  } else {
    declared_left_ = *head.content_length;
    absl::StrAppend(&interim_, "content-length: ", declared_left_, "\r\n");
  }
  for (const auto& [name, value] : head.headers) {
    absl::StrAppend(&interim_, name, ": ", value, "\r\n");
  }
  absl::StrAppend(&interim_, keep_alive_ ? "\r\n" : "connection: close\r\n\r\n");
  head_sent_ = true;
  Wake();
}

void H1Session::SendEnd() {
  response_ended_ = true;
  Wake();
}

void H1Session::GoAway(GoAwayKind kind) {
  keep_alive_ = false;
  if (kind != GoAwayKind::kGraceful) connection_->CloseAfterFlush(/*reset=*/false);
}

void H1Session::Produce(std::string* out, size_t limit) {
  *out += interim_;
  interim_.clear();
  while (body_sent_ < body_.size() && out->size() < limit) {
    size_t size = std::min(body_.size() - body_sent_, limit - out->size());
    if (one_byte_) size = 1;
    if (chunked_out_) absl::StrAppend(out, absl::Hex(size), "\r\n");
    out->append(body_, body_sent_, size);
    if (chunked_out_) *out += "\r\n";
    body_sent_ += size;
    declared_left_ -= std::min<uint64_t>(declared_left_, size);
  }
  if (body_sent_ < body_.size()) return;
  body_.clear();
  body_sent_ = 0;
  if (!response_ended_ || stage_ != Stage::kAnswering) return;
  if (chunked_out_) *out += "0\r\n\r\n";
  // A body shorter than declared can only be told by closing.
  if (!keep_alive_ || (!chunked_out_ && declared_left_ > 0)) {
    ended_ = true;
    return;
  }
  NextRequest();
}

void H1Session::NextRequest() {
  call_.reset();
  one_byte_ = false;
  stage_ = Stage::kHead;
  in_.erase(0, in_at_);
  in_at_ = 0;
  if (!in_.empty() && !Parse()) connection_->CloseAfterFlush(/*reset=*/false);
}

}  // namespace

std::unique_ptr<Session> MakeH1Session(Connection* connection) {
  return std::make_unique<H1Session>(connection);
}

}  // namespace headrace::simulator

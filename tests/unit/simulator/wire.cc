#include "tests/unit/simulator/wire.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace headrace::simulator {

RawSocket::RawSocket(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  SetTimeoutMs(5'000);
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    end_ = WireEnd::kReset;
  }
}

RawSocket::~RawSocket() {
  if (fd_ >= 0) close(fd_);
}

void RawSocket::SetTimeoutMs(int ms) {
  const timeval limit{.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

void RawSocket::Send(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

std::string RawSocket::Read() {
  char buffer[65536];
  const ssize_t got = recv(fd_, buffer, sizeof(buffer), 0);
  if (got > 0) return std::string(buffer, static_cast<size_t>(got));
  if (got == 0) {
    end_ = WireEnd::kFin;
  } else {
    end_ = errno == EAGAIN ? WireEnd::kTimeout : WireEnd::kReset;
  }
  return "";
}

std::string RawSocket::ReadAll() {
  std::string all;
  while (true) {
    const std::string piece = Read();
    if (piece.empty()) return all;
    all += piece;
  }
}

std::string RawSocket::ReadUntil(absl::string_view text) {
  std::string all;
  while (!absl::StrContains(all, text)) {
    const std::string piece = Read();
    if (piece.empty()) return all;
    all += piece;
  }
  return all;
}

void RawSocket::Reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close(fd_);
  fd_ = -1;
}

std::string Response::Header(absl::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return "";
}

Response Fetch(const Ask& ask) {
  Response response;
  CURL* curl = curl_easy_init();
  const bool tls = ask.version == Version::kTls || ask.version == Version::kTlsHttp1;
  const std::string url = absl::StrCat(tls ? "https" : "http", "://127.0.0.1:", ask.port, ask.path);
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, ask.timeout_ms);
  constexpr long kVersions[] = {CURL_HTTP_VERSION_1_1, CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE,
                                CURL_HTTP_VERSION_2TLS, CURL_HTTP_VERSION_1_1};
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, kVersions[static_cast<size_t>(ask.version)]);
  if (tls) curl_easy_setopt(curl, CURLOPT_CAINFO, ask.ca_file.c_str());
  if (!ask.body.empty()) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, ask.body.data());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(ask.body.size()));
  }
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
  headers = curl_slist_append(headers, "Expect:");
  for (const std::string& header : ask.headers)
    headers = curl_slist_append(headers, header.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(
      curl, CURLOPT_WRITEFUNCTION, +[](char* data, size_t, size_t size, void* out) -> size_t {
        auto* to = static_cast<Response*>(out);
        to->body.append(data, size);
        to->pieces.emplace_back(data, size);
        return size;
      });
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &response);
  curl_easy_setopt(
      curl, CURLOPT_HEADERFUNCTION, +[](char* data, size_t, size_t size, void* out) -> size_t {
        const absl::string_view line(data, size);
        const size_t colon = line.find(": ");
        if (colon != absl::string_view::npos) {
          const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 2));
          static_cast<Response*>(out)->headers.emplace_back(
              absl::AsciiStrToLower(line.substr(0, colon)), std::string(value));
        }
        return size;
      });
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &response);
  response.curl_code = curl_easy_perform(curl);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &response.status);
  curl_slist_free_all(headers);
  curl_easy_cleanup(curl);
  return response;
}

H2Client::H2Client(int port) : socket_(port) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
  nghttp2_session_client_new(&h2_, callbacks, this);
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_submit_settings(h2_, NGHTTP2_FLAG_NONE, nullptr, 0);
}

H2Client::~H2Client() { nghttp2_session_del(h2_); }

int32_t H2Client::Post(absl::string_view path, absl::string_view body,
                       const std::vector<std::pair<std::string, std::string>>& headers) {
  std::vector<std::pair<std::string, std::string>> all = {
      {":method", "POST"}, {":scheme", "http"}, {":authority", "test"}, {":path", ""}};
  all.back().second.assign(path.data(), path.size());
  all.insert(all.end(), headers.begin(), headers.end());
  std::vector<nghttp2_nv> nvs;
  for (auto& [name, value] : all) {
    nvs.push_back({reinterpret_cast<uint8_t*>(name.data()),
                   reinterpret_cast<uint8_t*>(value.data()), name.size(), value.size(),
                   NGHTTP2_NV_FLAG_NONE});
  }
  nghttp2_data_provider provider;
  provider.source.ptr = this;
  provider.read_callback = [](nghttp2_session*, int32_t id, uint8_t* buffer, size_t length,
                              uint32_t* flags, nghttp2_data_source* source, void*) -> ssize_t {
    auto& [text, at] = static_cast<H2Client*>(source->ptr)->bodies_[id];
    const size_t size = std::min(length, text.size() - at);
    memcpy(buffer, text.data() + at, size);
    at += size;
    if (at == text.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(size);
  };
  const int32_t id =
      nghttp2_submit_request(h2_, nullptr, nvs.data(), nvs.size(), &provider, nullptr);
  bodies_[id] = {std::string(body.data(), body.size()), 0};
  seen_[id];
  Flush();
  return id;
}

void H2Client::Cancel(int32_t stream) {
  nghttp2_submit_rst_stream(h2_, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
  Flush();
}

void H2Client::Flush() {
  const uint8_t* data = nullptr;
  ssize_t size = 0;
  while ((size = nghttp2_session_mem_send(h2_, &data)) > 0) {
    socket_.Send({reinterpret_cast<const char*>(data), static_cast<size_t>(size)});
  }
}

size_t H2Client::Ended() const {
  return static_cast<size_t>(std::count_if(seen_.begin(), seen_.end(), [](const auto& entry) {
    return entry.second.end_stream || entry.second.reset.has_value();
  }));
}

void H2Client::Run(size_t done) {
  Flush();
  while (Ended() < done) {
    const std::string bytes = socket_.Read();
    if (bytes.empty()) return;
    if (nghttp2_session_mem_recv(h2_, reinterpret_cast<const uint8_t*>(bytes.data()),
                                 bytes.size()) < 0) {
      return;
    }
    Flush();
  }
}

uint32_t H2Client::max_streams() const {
  return nghttp2_session_get_remote_settings(h2_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

int H2Client::OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                       size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                       void* self) {
  if (absl::string_view(reinterpret_cast<const char*>(name), name_size) == ":status") {
    static_cast<H2Client*>(self)->seen_[frame->hd.stream_id].status =
        std::stoi(std::string(reinterpret_cast<const char*>(value), value_size));
  }
  return 0;
}

int H2Client::OnData(nghttp2_session*, uint8_t, int32_t id, const uint8_t* data, size_t size,
                     void* self) {
  H2Seen& seen = static_cast<H2Client*>(self)->seen_[id];
  seen.body.append(reinterpret_cast<const char*>(data), size);
  seen.frames.emplace_back(reinterpret_cast<const char*>(data), size);
  return 0;
}

int H2Client::OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* self) {
  auto* client = static_cast<H2Client*>(self);
  const int32_t id = frame->hd.stream_id;
  switch (frame->hd.type) {
    case NGHTTP2_DATA:
    case NGHTTP2_HEADERS:
      if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) client->seen_[id].end_stream = true;
      break;
    case NGHTTP2_RST_STREAM:
      client->seen_[id].reset = frame->rst_stream.error_code;
      break;
    case NGHTTP2_GOAWAY:
      client->goaway_ = {frame->goaway.last_stream_id, frame->goaway.error_code};
      break;
    default:
      break;
  }
  return 0;
}

}  // namespace headrace::simulator

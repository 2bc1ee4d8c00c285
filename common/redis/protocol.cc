#include "common/redis/protocol.h"

#include <hiredis/hiredis.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace headrace::redis {
namespace {

// The callbacks of hiredis' reader build Reply objects in place: the root on the heap, an element
// inside its parent's vector, which has its final size from the start.
Reply* Place(const redisReadTask* task) {
  if (task->parent == nullptr) return new Reply();
  auto* parent = static_cast<Reply*>(task->parent->obj);
  return &parent->elements[static_cast<size_t>(task->idx)];
}

void* MakeString(const redisReadTask* task, char* text, size_t size) {
  Reply* reply = Place(task);
  reply->type = task->type == REDIS_REPLY_ERROR    ? Reply::Type::kError
                : task->type == REDIS_REPLY_STATUS ? Reply::Type::kStatus
                                                   : Reply::Type::kString;
  reply->text.assign(text, size);
  return reply;
}

// hiredis from 1.0 on has no limit of its own, and a reply is destroyed by recursion.
bool IsTooDeep(const redisReadTask* task) {
  int depth = 1;
  for (; task->parent != nullptr && depth <= ReplyReader::kMaxDepth; task = task->parent) ++depth;
  return depth > ReplyReader::kMaxDepth;
}

void* MakeArray(const redisReadTask* task, size_t count) {
  auto* elements = static_cast<size_t*>(task->privdata);
  // Null makes the reader fail, before anything of that size is allocated.
  if (count > ReplyReader::kMaxReplyElements - *elements || IsTooDeep(task)) return nullptr;
  *elements += count;
  Reply* reply = Place(task);
  reply->type = Reply::Type::kArray;
  reply->elements.resize(count);
  return reply;
}

void* MakeInteger(const redisReadTask* task, long long value) {  // NOLINT: hiredis' type
  Reply* reply = Place(task);
  reply->type = Reply::Type::kInteger;
  reply->integer = value;
  return reply;
}

void* MakeNil(const redisReadTask* task) { return Place(task); }

// Only the root owns memory that is not in its parent.
void FreeRoot(void* reply) { delete static_cast<Reply*>(reply); }

// A template, so that members which hiredis 0.14 lacks are looked up only where they exist.
template <typename Functions>
Functions MakeFunctions() {
  Functions functions{};
  functions.createString = &MakeString;
  // The count is int in 0.14 and size_t since 1.0.
  functions.createArray = [](const redisReadTask* task, auto count) -> void* {
    return MakeArray(task, static_cast<size_t>(count));
  };
  functions.createInteger = &MakeInteger;
  functions.createNil = &MakeNil;
  functions.freeObject = &FreeRoot;
  // RESP3, which we never ask for: refused. Left null, the reader would return no pointer.
  if constexpr (requires { functions.createDouble; }) {
    functions.createDouble = [](const redisReadTask*, double, char*, size_t) -> void* {
      return nullptr;
    };
    functions.createBool = [](const redisReadTask*, int) -> void* { return nullptr; };
  }
  return functions;
}

}  // namespace

void AppendCommand(const std::vector<std::string>& argv, std::string* out) {
  absl::StrAppend(out, "*", argv.size(), "\r\n");
  for (const std::string& argument : argv) {
    absl::StrAppend(out, "$", argument.size(), "\r\n", argument, "\r\n");
  }
}

void ReplyReader::ReaderFree::operator()(redisReader* reader) const { redisReaderFree(reader); }

ReplyReader::ReplyReader() {
  static redisReplyObjectFunctions functions = MakeFunctions<redisReplyObjectFunctions>();
  reader_.reset(redisReaderCreateWithFunctions(&functions));
  HR_CHECK(reader_ != nullptr) << "out of memory";
  reader_->privdata = &elements_;
}

ReplyReader::~ReplyReader() = default;

absl::Status ReplyReader::Feed(absl::string_view bytes) {
  if (unfinished_bytes_ + bytes.size() > kMaxReplyBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a reply of more than ", kMaxReplyBytes, " bytes"));
  }
  unfinished_bytes_ += bytes.size();
  if (redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK) {
    return absl::InvalidArgumentError(reader_->errstr);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Reply>> ReplyReader::Next() {
  void* object = nullptr;
  if (redisReaderGetReply(reader_.get(), &object) != REDIS_OK) {
    return absl::InvalidArgumentError(
        absl::StrCat("not the protocol of Redis: ", absl::CHexEscape(reader_->errstr)));
  }
  if (object == nullptr) return std::optional<Reply>();
  const std::unique_ptr<Reply> root(static_cast<Reply*>(object));
  unfinished_bytes_ = reader_->len - reader_->pos;
  elements_ = 0;
  return std::optional<Reply>(std::move(*root));
}

}  // namespace headrace::redis

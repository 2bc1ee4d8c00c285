#include "common/outcome/result_fields.h"

#include <simdjson.h>

#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace headrace {
namespace {

namespace ondemand = simdjson::ondemand;
using simdjson::error_code;
using simdjson::SUCCESS;

#define HR_RETURN_IF_JSON_ERROR(expr)                                       \
  do {                                                                      \
    if (error_code hr_error = (expr); hr_error != SUCCESS) return hr_error; \
  } while (false)

// Calls `on_field(key, value)` for each field of an object.
template <typename F>
error_code ForEachField(ondemand::object object, F on_field) {
  for (auto entry : object) {
    ondemand::field field;
    HR_RETURN_IF_JSON_ERROR(std::move(entry).get(field));
    std::string_view key;
    HR_RETURN_IF_JSON_ERROR(field.unescaped_key().get(key));
    HR_RETURN_IF_JSON_ERROR(on_field(key, field.value()));
  }
  return SUCCESS;
}

// An object's fields; nothing for null.
template <typename F>
error_code ForEachFieldUnlessNull(ondemand::value value, F on_field) {
  bool is_null = false;
  HR_RETURN_IF_JSON_ERROR(value.is_null().get(is_null));
  if (is_null) return SUCCESS;
  ondemand::object object;
  HR_RETURN_IF_JSON_ERROR(value.get_object().get(object));
  return ForEachField(object, on_field);
}

error_code ReadString(ondemand::value value, std::string* out) {
  std::string_view text;
  HR_RETURN_IF_JSON_ERROR(value.get_string().get(text));
  out->assign(text.data(), text.size());
  return SUCCESS;
}

template <typename Int>
error_code ReadUint(ondemand::value value, Int* out) {
  uint64_t number = 0;
  HR_RETURN_IF_JSON_ERROR(value.get_uint64().get(number));
  *out = static_cast<Int>(number);
  return SUCCESS;
}

template <typename Id>
error_code ReadId(ondemand::value value, Id* out) {
  uint64_t number = 0;
  HR_RETURN_IF_JSON_ERROR(value.get_uint64().get(number));
  *out = Id(number);
  return SUCCESS;
}

error_code ReadCount(ondemand::value value, std::optional<int64_t>* out) {
  int64_t number = 0;
  HR_RETURN_IF_JSON_ERROR(value.get_int64().get(number));
  *out = number;
  return SUCCESS;
}

error_code ReadMs(ondemand::value value, absl::Duration* out) {
  double ms = 0;
  HR_RETURN_IF_JSON_ERROR(value.get_double().get(ms));
  // Written with three digits after the point; this gives back exactly the microseconds written.
  *out = absl::Microseconds(static_cast<int64_t>(ms * 1000 + 0.5));
  return SUCCESS;
}

error_code ReadMs(ondemand::value value, std::optional<absl::Duration>* out) {
  bool is_null = false;
  HR_RETURN_IF_JSON_ERROR(value.is_null().get(is_null));
  if (is_null) return SUCCESS;
  absl::Duration duration;
  HR_RETURN_IF_JSON_ERROR(ReadMs(value, &duration));
  *out = duration;
  return SUCCESS;
}

error_code ReadTime(ondemand::value value, absl::Time* out) {
  std::string_view text;
  HR_RETURN_IF_JSON_ERROR(value.get_string().get(text));
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, absl::string_view(text.data(), text.size()), out,
                       &error)) {
    return simdjson::INCORRECT_TYPE;
  }
  return SUCCESS;
}

error_code ReadBody(ondemand::value value, std::string* out) {
  ondemand::json_type type;
  HR_RETURN_IF_JSON_ERROR(value.type().get(type));
  std::string_view raw;
  if (type == ondemand::json_type::null) {
    return SUCCESS;
  } else if (type == ondemand::json_type::object) {
    ondemand::object object;
    HR_RETURN_IF_JSON_ERROR(value.get_object().get(object));
    HR_RETURN_IF_JSON_ERROR(object.raw_json().get(raw));
  } else if (type == ondemand::json_type::array) {
    ondemand::array array;
    HR_RETURN_IF_JSON_ERROR(value.get_array().get(array));
    HR_RETURN_IF_JSON_ERROR(array.raw_json().get(raw));
  } else {
    raw = value.raw_json_token();
  }
  out->assign(raw.data(), raw.size());
  return SUCCESS;
}

error_code ReadUsage(ondemand::value value, Usage* out) {
  return ForEachFieldUnlessNull(value, [out](std::string_view key, ondemand::value field) {
    if (key == "prompt_tokens") return ReadCount(field, &out->prompt_tokens);
    if (key == "completion_tokens") return ReadCount(field, &out->completion_tokens);
    if (key == "cached_tokens") return ReadCount(field, &out->cached_tokens);
    if (key == "cache_write_tokens") return ReadCount(field, &out->cache_write_tokens);
    if (key == "reasoning_tokens") return ReadCount(field, &out->reasoning_tokens);
    return SUCCESS;
  });
}

error_code ReadTimes(ondemand::value value, ItemTimes* out) {
  return ForEachFieldUnlessNull(value, [out](std::string_view key, ondemand::value field) {
    if (key == "queue") return ReadMs(field, &out->queue);
    if (key == "connect") return ReadMs(field, &out->connect);
    if (key == "first_byte") return ReadMs(field, &out->first_byte);
    if (key == "first_token") return ReadMs(field, &out->first_token);
    if (key == "network") return ReadMs(field, &out->network);
    if (key == "total") return ReadMs(field, &out->total);
    if (key == "read_tick") return ReadMs(field, &out->read_tick);
    return SUCCESS;
  });
}

error_code ReadHeadrace(ondemand::value value, ResultFields* out) {
  return ForEachFieldUnlessNull(value, [out](std::string_view key, ondemand::value field) {
    if (key == "item") return ReadId(field, &out->item);
    if (key == "row") return ReadId(field, &out->row);
    if (key == "model") return ReadString(field, &out->model);
    if (key == "status") return ReadString(field, &out->status);
    if (key == "finish_reason") return ReadString(field, &out->finish_reason);
    if (key == "attempts") return ReadUint(field, &out->attempts);
    if (key == "possibly_billed") return ReadUint(field, &out->possibly_billed);
    if (key == "pass") return ReadUint(field, &out->pass);
    if (key == "usage") return ReadUsage(field, &out->usage);
    if (key == "ms") return ReadTimes(field, &out->times);
    if (key == "worker") return ReadString(field, &out->worker);
    if (key == "batch") return ReadId(field, &out->batch);
    if (key == "started") return ReadTime(field, &out->started);
    if (key == "expected") return ReadString(field, &out->expected);
    if (key == "flags") return ReadString(field, &out->flags);
    return SUCCESS;
  });
}

error_code ReadLine(ondemand::object line, ResultFields* out) {
  return ForEachField(line, [out](std::string_view key, ondemand::value value) {
    if (key == "custom_id") return ReadString(value, &out->custom_id);
    if (key == "response") {
      return ForEachFieldUnlessNull(value, [out](std::string_view name, ondemand::value field) {
        if (name == "status_code") return ReadUint(field, &out->http_status);
        if (name == "request_id") return ReadString(field, &out->request_id);
        if (name == "body") return ReadBody(field, &out->body);
        return SUCCESS;
      });
    }
    if (key == "error") {
      return ForEachFieldUnlessNull(value, [out](std::string_view name, ondemand::value field) {
        return name == "message" ? ReadString(field, &out->error_message) : SUCCESS;
      });
    }
    if (key == "headrace") return ReadHeadrace(value, out);
    return SUCCESS;
  });
}

// A fresh object that keeps the capacity of the old one's texts.
void Reset(ResultFields* fields) {
  ResultFields old = std::move(*fields);
  *fields = ResultFields();
  for (std::string ResultFields::* text :
       {&ResultFields::model, &ResultFields::custom_id, &ResultFields::status,
        &ResultFields::error_message, &ResultFields::request_id, &ResultFields::body,
        &ResultFields::finish_reason, &ResultFields::expected, &ResultFields::worker,
        &ResultFields::flags}) {
    (old.*text).clear();
    fields->*text = std::move(old.*text);
  }
}

}  // namespace

class ResultLineParser::Impl {
 public:
  error_code Parse(absl::string_view line, ResultFields* fields) {
    // simdjson reads up to SIMDJSON_PADDING bytes past the end.
    buffer_.assign(line.data(), line.size());
    buffer_.append(simdjson::SIMDJSON_PADDING, '\0');
    ondemand::document document;
    HR_RETURN_IF_JSON_ERROR(
        parser_.iterate(buffer_.data(), line.size(), buffer_.size()).get(document));
    ondemand::object object;
    HR_RETURN_IF_JSON_ERROR(document.get_object().get(object));
    HR_RETURN_IF_JSON_ERROR(ReadLine(object, fields));
    const bool at_end = document.current_location().error() == simdjson::OUT_OF_BOUNDS;
    return at_end ? SUCCESS : simdjson::TAPE_ERROR;
  }

 private:
  ondemand::parser parser_;
  std::string buffer_;
};

ResultLineParser::ResultLineParser() : impl_(std::make_unique<Impl>()) {}

ResultLineParser::~ResultLineParser() = default;

absl::Status ResultLineParser::Parse(absl::string_view line, ResultFields* fields) {
  Reset(fields);
  const error_code error = impl_->Parse(line, fields);
  if (error != SUCCESS) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a result line: ", simdjson::error_message(error)));
  }
  fields->error_class = fields->status == "ok"
                            ? ErrorClass::kNone
                            : ErrorClassFromName(fields->status).value_or(ErrorClass::kInternal);
  return absl::OkStatus();
}

}  // namespace headrace

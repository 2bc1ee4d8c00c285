#include "coordinator/dataset/pictures.h"

#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/utf8.h"

namespace headrace {
namespace {

namespace dom = simdjson::dom;

// Enough base64 for every signature below: 24 characters are 18 bytes.
constexpr size_t kSniffedCharacters = 24;
constexpr size_t kMaxShownBytes = 60;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

bool TextAt(dom::element element, std::string_view key, absl::string_view* out) {
  std::string_view text;
  if (element.at_key(key).get_string().get(text)) return false;
  *out = View(text);
  return true;
}

std::string Base64Problem(absl::string_view media_type, absl::string_view data) {
  if (media_type == "image/jpg") return "image/jpg is no media type; it is called image/jpeg";
  if (media_type != "image/png" && media_type != "image/jpeg" && media_type != "image/gif" &&
      media_type != "image/webp") {
    return absl::StrCat("'", ExcerptUtf8(media_type, kMaxShownBytes),
                        "' is not taken by providers, which know image/png, image/jpeg, image/gif "
                        "and image/webp");
  }
  std::string bytes;
  const absl::string_view start = data.substr(0, kSniffedCharacters);
  if (start.empty() || !absl::Base64Unescape(start.substr(0, start.size() / 4 * 4), &bytes)) {
    return "the picture is not valid base64";
  }
  const absl::string_view sniffed = SniffMediaType(bytes);
  if (sniffed == media_type) return "";
  return absl::StrCat("the picture is labelled ", media_type, ", but its bytes are ",
                      sniffed.empty() ? "of no known picture" : sniffed);
}

// One part of a message's content; "" when it is no picture or a good one.
std::string PartProblem(dom::element part) {
  absl::string_view type, url, data, media_type;
  if (!TextAt(part, "type", &type)) return "";
  if (type == "image_url" || type == "input_image") {
    dom::element image;
    if (part.at_key("image_url").get(image)) return "";
    std::string_view text;
    if (!image.get_string().get(text)) return PictureProblem(View(text));
    if (TextAt(image, "url", &url)) return PictureProblem(url);
    return "";
  }
  dom::element source;
  if (type != "image" || part.at_key("source").get(source)) return "";
  if (TextAt(source, "url", &url)) return PictureProblem(url);
  if (TextAt(source, "media_type", &media_type) && TextAt(source, "data", &data)) {
    return Base64Problem(media_type, data);
  }
  return "";
}

}  // namespace

absl::string_view SniffMediaType(absl::string_view bytes) {
  using absl::StartsWith;
  if (StartsWith(bytes, "\x89PNG")) return "image/png";
  if (StartsWith(bytes, "\xFF\xD8\xFF")) return "image/jpeg";
  if (StartsWith(bytes, "GIF8")) return "image/gif";
  if (StartsWith(bytes, "RIFF") && bytes.substr(std::min<size_t>(8, bytes.size()), 4) == "WEBP") {
    return "image/webp";
  }
  if (StartsWith(bytes, "BM")) return "image/bmp";
  if (StartsWith(bytes, "%PDF")) return "application/pdf";
  if (StartsWith(bytes, "II*") || StartsWith(bytes, "MM")) return "image/tiff";
  if (StartsWith(bytes, "<svg") || StartsWith(bytes, "<?xml")) return "image/svg+xml";
  if (bytes.substr(std::min<size_t>(4, bytes.size()), 4) == "ftyp") return "image/heic or avif";
  return "";
}

std::string PictureProblem(absl::string_view url) {
  if (absl::StartsWithIgnoreCase(url, "https://") || absl::StartsWithIgnoreCase(url, "http://")) {
    return "";
  }
  absl::string_view rest = url;
  if (!absl::ConsumePrefix(&rest, "data:")) {
    return absl::StrCat(
        "'", ExcerptUtf8(url, kMaxShownBytes),
        "' is neither an http(s) URL nor a data URL; a provider cannot read a local "
        "file");
  }
  const size_t comma = rest.find(',');
  absl::string_view label = rest.substr(0, comma);
  if (comma == absl::string_view::npos || !absl::ConsumeSuffix(&label, ";base64")) {
    return "a data URL needs ';base64,' before the picture";
  }
  return Base64Problem(label, rest.substr(comma + 1));
}

void CheckPictures(dom::element messages, absl::string_view field,
                   std::vector<std::string>* remarks) {
  dom::array list;
  if (messages.get_array().get(list)) return;
  size_t message_index = 0;
  size_t found = 0;
  for (dom::element message : list) {
    const size_t i = message_index++;
    dom::array parts;
    if (message.at_key("content").get_array().get(parts)) continue;
    size_t part_index = 0;
    for (dom::element part : parts) {
      const size_t k = part_index++;
      const std::string problem = PartProblem(part);
      if (problem.empty()) continue;
      if (++found > kMaxPictureRemarks) return;
      remarks->push_back(absl::StrCat(field, "[", i, "].content[", k, "]: ", problem));
    }
  }
}

}  // namespace headrace

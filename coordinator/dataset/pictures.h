// Finds pictures in chat messages that a provider would refuse, before they are sent.
#ifndef HEADRACE_COORDINATOR_DATASET_PICTURES_H_
#define HEADRACE_COORDINATOR_DATASET_PICTURES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "simdjson.h"

namespace headrace {

// The media type that the first bytes of a picture show, like "image/png"; empty when unknown.
absl::string_view SniffMediaType(absl::string_view bytes);

// What is wrong with one picture's URL: a data URL whose label is not what its bytes are, a type
// that providers do not take, a local path. Empty when nothing is.
std::string PictureProblem(absl::string_view url);

// Appends "FIELD[0].content[1]: what" for each bad picture of `messages` (an array of chat messages
// of the OpenAI or the Anthropic API; anything else has none), at most kMaxPictureRemarks.
inline constexpr size_t kMaxPictureRemarks = 3;
void CheckPictures(simdjson::dom::element messages, absl::string_view field,
                   std::vector<std::string>* remarks);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_DATASET_PICTURES_H_

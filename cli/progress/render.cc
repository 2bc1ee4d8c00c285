#include "cli/progress/render.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "cli/progress/text_width.h"
#include "common/base/units.h"

namespace headrace {
namespace {

// More models than this are summed up in one line. Chosen, not measured.
constexpr size_t kMaxModelLines = 12;
constexpr size_t kMaxFailureClasses = 4;
constexpr int kBarColumns = 24;
constexpr int kModelBarColumns = 12;
constexpr int kModelLabelColumns = 28;

enum class Style { kPlain, kBold, kGood, kWarn };

absl::string_view StyleCode(Style style) {
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kBold:
      return "\x1b[1m";
    case Style::kGood:
      return "\x1b[32m";
    case Style::kWarn:
      return "\x1b[33m";
  }
  return "";
}

double Share(int64_t part, int64_t whole) {
  return whole <= 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// "41.2%"; only what is complete shows 100.0%.
std::string Percent(int64_t part, int64_t whole) {
  const double percent = 100 * Share(part, whole);
  return absl::StrFormat("%.1f%%", part < whole ? std::min(percent, 99.9) : percent);
}

std::string Bar(int64_t part, int64_t whole, int columns) {
  const int full = std::clamp(static_cast<int>(Share(part, whole) * columns), 0, columns);
  return absl::StrCat("[", std::string(full, '#'), std::string(columns - full, '.'), "]");
}

std::string OfLimit(double used, int64_t limit) {
  if (limit == 0) return absl::StrCat(FormatCount(used), "/min");
  return absl::StrFormat("%s of %s/min (%.0f%%)", FormatCount(used),
                         FormatCount(static_cast<double>(limit)),
                         100 * used / static_cast<double>(limit));
}

std::string Quantiles(absl::string_view name, const std::optional<absl::Duration>& p50,
                      const std::optional<absl::Duration>& p95) {
  const auto show = [](const std::optional<absl::Duration>& d) {
    return d.has_value() ? headrace::FormatDuration(*d) : std::string("-");
  };
  return absl::StrCat(name, " p50 ", show(p50), " p95 ", show(p95));
}

std::string FailureText(const ProgressSnapshot& s) {
  std::vector<std::string> parts;
  int64_t others = 0;
  for (const FailureCount& failure : s.failures) {
    if (parts.size() < kMaxFailureClasses) {
      parts.push_back(
          absl::StrCat(ErrorClassName(failure.error_class), " ", FormatGrouped(failure.items)));
    } else {
      others += failure.items;
    }
  }
  if (others > 0) parts.push_back(absl::StrCat("others ", FormatGrouped(others)));
  return absl::StrJoin(parts, ", ");
}

std::string CostText(const ProgressSnapshot& s) {
  if (s.max_cost_usd <= 0) return absl::StrFormat("$%.2f", *s.cost_usd);
  return absl::StrFormat("$%.2f of $%.2f", *s.cost_usd, s.max_cost_usd);
}

// "36.1s"; a run that has just begun has no use for microseconds.
std::string Elapsed(const ProgressSnapshot& s) {
  return headrace::FormatDuration(absl::Trunc(s.elapsed, absl::Milliseconds(100)));
}

// Collects the lines of a frame; each is cut to the width before its colour is added.
class Frame {
 public:
  explicit Frame(const FrameOptions& options)
      : options_(options), max_lines_(static_cast<size_t>(std::max(1, options.rows - 1))) {}

  void Add(absl::string_view text, Style style = Style::kPlain) {
    if (lines_.size() == max_lines_) return;
    std::string line = FitText(text, options_.columns);
    if (options_.color && style != Style::kPlain) {
      line = absl::StrCat(StyleCode(style), line, "\x1b[0m");
    }
    lines_.push_back(std::move(line));
  }
  size_t left() const { return max_lines_ - lines_.size(); }
  std::vector<std::string> Take() { return std::move(lines_); }

 private:
  const FrameOptions& options_;
  const size_t max_lines_;
  std::vector<std::string> lines_;
};

void AddTotals(const ProgressSnapshot& s, Frame* frame) {
  frame->Add(absl::StrCat(s.job, "  pass ", s.pass, " of ", s.passes, "  ", Elapsed(s),
                          s.finished ? "  finished" : ""),
             Style::kBold);
  std::string eta;
  if (!s.finished && s.eta.has_value()) {
    eta = absl::StrCat("  eta ", headrace::FormatDuration(*s.eta));
  }
  frame->Add(absl::StrCat(Bar(s.done, s.total, kBarColumns), " ", Percent(s.done, s.total), "  ",
                          FormatGrouped(s.done), " of ", FormatGrouped(s.total), eta),
             s.finished ? Style::kGood : Style::kPlain);
  frame->Add(absl::StrCat("  ok ", FormatGrouped(s.ok), "  failed ", FormatGrouped(s.failed),
                          "  deferred ", FormatGrouped(s.deferred), "  ",
                          FormatCount(s.items_per_minute), " items/min"));
}

void AddPools(const ProgressSnapshot& s, Frame* frame) {
  for (const PoolProgress& pool : s.pools) {
    frame->Add(absl::StrCat("  pool ", pool.name, "  tokens ",
                            OfLimit(pool.tokens_per_minute, pool.tokens_limit), "  requests ",
                            OfLimit(pool.requests_per_minute, pool.requests_limit)));
    if (pool.in_flight_limit == 0) continue;
    frame->Add(absl::StrCat("    in flight auto ", FormatGrouped(pool.in_flight_limit), ": ",
                            pool.in_flight_why));
  }
}

// " of auto 240"
std::string Gates(const ProgressSnapshot& s) {
  if (s.max_in_flight == 0) return "";
  return absl::StrCat(s.auto_in_flight ? " of auto " : " of ", FormatGrouped(s.max_in_flight));
}

// ": throughput stopped growing at 240"; with several pools each by its name.
void AppendWhyInFlight(const ProgressSnapshot& s, std::string* out) {
  if (s.pools.size() == 1 && s.auto_in_flight) {
    absl::StrAppend(out, ": ", s.pools[0].in_flight_why);
    return;
  }
  for (const PoolProgress& pool : s.pools) {
    if (pool.in_flight_limit == 0) continue;
    absl::StrAppend(out, " (", pool.name, " auto ", FormatGrouped(pool.in_flight_limit), ": ",
                    pool.in_flight_why, ")");
  }
}

void AddTraffic(const ProgressSnapshot& s, Frame* frame) {
  frame->Add(absl::StrCat("  in flight ", FormatGrouped(s.in_flight), Gates(s),
                          "  waiting at the gate ", FormatGrouped(s.gate_waiting), "  workers ",
                          FormatGrouped(s.workers)));
  frame->Add(absl::StrCat("  ", Quantiles("queue", s.queue_p50, s.queue_p95), "  ",
                          Quantiles("network", s.network_p50, s.network_p95), "  throttled ",
                          FormatGrouped(s.throttled), "  retries ", FormatGrouped(s.retries)));
  if (s.cost_usd.has_value()) frame->Add(absl::StrCat("  cost ", CostText(s)));
  if (!s.failures.empty()) frame->Add(absl::StrCat("  failures: ", FailureText(s)), Style::kWarn);
}

std::string ModelLine(const ModelProgress& model, int label_columns) {
  const std::string label = FitText(model.label, label_columns);
  const std::string padding(static_cast<size_t>(label_columns - TextWidth(label)), ' ');
  return absl::StrCat("  ", label, padding, " ", Bar(model.done, model.total, kModelBarColumns),
                      " ", FormatGrouped(model.done), " of ", FormatGrouped(model.total),
                      "  failed ", FormatGrouped(model.failed));
}

void AddModels(const ProgressSnapshot& s, Frame* frame) {
  if (s.models.size() < 2) return;
  int label_columns = 0;
  for (const ModelProgress& model : s.models) {
    label_columns = std::max(label_columns, TextWidth(FitText(model.label, kModelLabelColumns)));
  }
  // The last lines of a frame say what limits the run; the models leave room for them.
  const size_t room = frame->left() < 3 ? 0 : frame->left() - 2;
  const size_t limit = std::min(kMaxModelLines, room);
  if (limit == 0) return;
  const bool all = s.models.size() <= limit;
  const size_t shown = all ? s.models.size() : limit - 1;
  for (size_t i = 0; i < shown; ++i) frame->Add(ModelLine(s.models[i], label_columns));
  if (!all) frame->Add(absl::StrCat("  and ", s.models.size() - shown, " more models"));
}

void AddLimits(const ProgressSnapshot& s, Frame* frame) {
  if (s.finished) return;
  if (!s.limited_by.empty()) frame->Add(absl::StrCat("  limited by ", s.limited_by));
  if (!s.waiting_for.empty()) {
    frame->Add(absl::StrCat("  waiting for ", s.waiting_for), Style::kWarn);
  }
}

}  // namespace

std::vector<std::string> RenderFrame(const ProgressSnapshot& snapshot,
                                     const FrameOptions& options) {
  Frame frame(options);
  AddTotals(snapshot, &frame);
  AddPools(snapshot, &frame);
  AddTraffic(snapshot, &frame);
  AddModels(snapshot, &frame);
  AddLimits(snapshot, &frame);
  return frame.Take();
}

std::string RenderPlainLine(const ProgressSnapshot& s) {
  std::string out = absl::StrCat("[", Elapsed(s), "] ", s.job, " pass ", s.pass, " of ", s.passes,
                                 ": ", FormatGrouped(s.done), " of ", FormatGrouped(s.total), " (",
                                 Percent(s.done, s.total), "), ok ", FormatGrouped(s.ok),
                                 ", failed ", FormatGrouped(s.failed));
  if (s.deferred > 0) absl::StrAppend(&out, ", deferred ", FormatGrouped(s.deferred));
  absl::StrAppend(&out, ", ", FormatCount(s.items_per_minute), " items/min");
  for (const PoolProgress& pool : s.pools) {
    absl::StrAppend(&out, ", ", pool.name, " tokens ",
                    OfLimit(pool.tokens_per_minute, pool.tokens_limit));
  }
  absl::StrAppend(&out, ", in flight ", FormatGrouped(s.in_flight),
                  s.auto_in_flight ? Gates(s) : "");
  AppendWhyInFlight(s, &out);
  absl::StrAppend(&out, ", throttled ", FormatGrouped(s.throttled));
  if (s.cost_usd.has_value()) absl::StrAppend(&out, ", cost ", CostText(s));
  if (s.finished) {
    absl::StrAppend(&out, ", finished");
  } else {
    if (s.eta.has_value()) absl::StrAppend(&out, ", eta ", headrace::FormatDuration(*s.eta));
    if (!s.limited_by.empty()) absl::StrAppend(&out, ", limited by ", s.limited_by);
    if (!s.waiting_for.empty()) absl::StrAppend(&out, ", waiting for ", s.waiting_for);
  }
  return FitText(out, 1 << 20);
}

}  // namespace headrace

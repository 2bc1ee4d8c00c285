// What was sent in the last while, in cells of time: the part of a limit that a provider counts per
// window, whose start we do not know.
//
// Any time of `width` lies within `span` cells in a row, so as long as no `span` cells in a row
// hold more than `size`, no window of the provider does, wherever it starts. `span` also covers the
// guard: a request that was `guard` longer on its way than another may fall into an earlier
// window's time.
//
// Integers only, below 2^53. Cell k covers [k, k + 1) * cell_us.
#ifndef HEADRACE_COMMON_QUOTA_RING_H_
#define HEADRACE_COMMON_QUOTA_RING_H_

#include <cstdint>
#include <deque>

namespace headrace::quota {

class Ring {
 public:
  // All in microseconds; `size` in units. `width` >= 1 s.
  Ring(int64_t size, int64_t width_us, int64_t guard_us);

  int64_t size() const { return size_; }
  void set_size(int64_t size) { size_ = size; }
  int64_t width_us() const { return width_us_; }
  int64_t cell_us() const { return cell_us_; }
  int64_t span() const { return span_; }  // cells that a request looks back over, its own included
  bool SameCells(const Ring& other) const {
    return cell_us_ == other.cell_us_ && span_ == other.span_;
  }

  // As after a while at the full rate up to `now_us`: nothing is free, and becomes so evenly.
  void Fill(int64_t now_us);
  // Forgets the cells that no request at `now_us` or later looks back to. Before every other call.
  void Roll(int64_t now_us);

  // The first moment, not before `at_us`, at which `cost` fits into `room` units. A cost above
  // `room` fits where nothing else is.
  int64_t FitAt(int64_t at_us, int64_t cost, int64_t room) const;
  void Add(int64_t at_us, int64_t units);
  // True while `at_us` is in a cell that still counts.
  bool Holds(int64_t at_us) const { return at_us / cell_us_ >= low_; }

  // What a request at `at_us` looks back on, what is booked for later included.
  int64_t Used(int64_t at_us) const;
  // What was sent in [from_us, to_us], whole cells.
  int64_t Between(int64_t from_us, int64_t to_us) const;

 private:
  int64_t size_;
  int64_t width_us_;
  int64_t cell_us_;
  int64_t span_;
  int64_t low_ = 0;  // the number of the first cell that is kept
  int64_t sum_ = 0;  // of all cells
  std::deque<int64_t> cells_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_RING_H_

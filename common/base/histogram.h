// A log-linear histogram of non-negative integers (HDR style), which merges without loss.
#ifndef HEADRACE_COMMON_BASE_HISTOGRAM_H_
#define HEADRACE_COMMON_BASE_HISTOGRAM_H_

#include <cstdint>
#include <vector>

namespace headrace {

// Values 0..63 are exact; above, each power of two has 64 equal buckets, so a quantile is at most
// 1.6 % above the true value. Grows to the largest value seen (15 KB at one hour in microseconds).
// Not thread-safe.
class Histogram {
 public:
  void Record(int64_t value) { Record(value, 1); }
  // Negative values count as 0.
  void Record(int64_t value, int64_t times);
  void Merge(const Histogram& other);
  void Reset();

  int64_t count() const { return count_; }
  int64_t min() const { return count_ == 0 ? 0 : min_; }
  int64_t max() const { return max_; }
  double mean() const;
  // The upper edge of the bucket that holds the q-quantile, q in [0, 1], at most max(); 0 if empty.
  int64_t Quantile(double q) const;

  // Bucket counts, for the wire and for reports. FromBuckets restores all but min, max and mean,
  // which come from bucket edges and middles; counts that are negative or overflow are dropped, and
  // so are buckets past the largest value.
  const std::vector<int64_t>& buckets() const { return buckets_; }
  static Histogram FromBuckets(std::vector<int64_t> buckets);

 private:
  std::vector<int64_t> buckets_;
  int64_t count_ = 0;
  int64_t min_ = 0;
  int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_COMMON_BASE_HISTOGRAM_H_

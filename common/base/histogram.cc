#include "common/base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace headrace {
namespace {

constexpr int kSubBits = 6;
constexpr size_t kSubBuckets = size_t{1} << kSubBits;
// Of the largest int64: 64 exact values and 64 buckets for each of the powers 2^6 to 2^62.
constexpr size_t kMaxBuckets = kSubBuckets * (1 + 63 - kSubBits);

size_t BucketOf(int64_t value) {
  const auto v = static_cast<uint64_t>(value);
  if (v < kSubBuckets) return v;
  const int shift = std::bit_width(v) - 1 - kSubBits;
  return kSubBuckets * static_cast<size_t>(shift) + (v >> shift);
}

int64_t LowerEdge(size_t bucket) {
  if (bucket < kSubBuckets) return static_cast<int64_t>(bucket);
  const size_t shift = bucket / kSubBuckets - 1;
  return static_cast<int64_t>((kSubBuckets + bucket % kSubBuckets) << shift);
}

int64_t UpperEdge(size_t bucket) {
  if (bucket + 1 == kMaxBuckets) return std::numeric_limits<int64_t>::max();
  return LowerEdge(bucket + 1) - 1;
}

}  // namespace

void Histogram::Record(int64_t value, int64_t times) {
  if (times <= 0) return;
  value = std::max<int64_t>(value, 0);
  const size_t bucket = BucketOf(value);
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  buckets_[bucket] += times;
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  count_ += times;
  sum_ += static_cast<double>(value) * static_cast<double>(times);
}

void Histogram::Merge(const Histogram& other) {
  if (other.count_ == 0) return;
  if (other.buckets_.size() > buckets_.size()) buckets_.resize(other.buckets_.size());
  for (size_t i = 0; i < other.buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  count_ += other.count_;
  sum_ += other.sum_;
}

void Histogram::Reset() { *this = Histogram(); }

double Histogram::mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

int64_t Histogram::Quantile(double q) const {
  if (count_ == 0) return 0;
  const double rank = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(count_));
  const int64_t wanted = std::clamp<int64_t>(static_cast<int64_t>(rank), 1, count_);
  int64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= wanted) return std::min(UpperEdge(i), max_);
  }
  return max_;
}

Histogram Histogram::FromBuckets(std::vector<int64_t> buckets) {
  Histogram out;
  if (buckets.size() > kMaxBuckets) buckets.resize(kMaxBuckets);
  for (size_t i = 0; i < buckets.size(); ++i) {
    // Counts come from a peer: a sum past int64 would be undefined, so such a bucket counts as 0.
    int64_t& in_bucket = buckets[i];
    if (in_bucket < 0 || in_bucket > std::numeric_limits<int64_t>::max() - out.count_) {
      in_bucket = 0;
    }
    if (in_bucket == 0) continue;
    if (out.count_ == 0) out.min_ = LowerEdge(i);
    out.max_ = UpperEdge(i);
    out.count_ += in_bucket;
    const double middle =
        (static_cast<double>(LowerEdge(i)) + static_cast<double>(UpperEdge(i))) / 2;
    out.sum_ += middle * static_cast<double>(in_bucket);
  }
  out.buckets_ = std::move(buckets);
  return out;
}

}  // namespace headrace

#include "common/base/mutex.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace headrace {
namespace {

TEST(Mutex, OneThreadAtATimeHoldsIt) {
  Mutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) {
        MutexLock lock(&mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 40'000);
}

TEST(CondVar, HandsEachValueOver) {
  Mutex mutex;
  CondVar changed;
  int value = 0;
  std::thread producer([&] {
    for (int i = 1; i <= 1000; ++i) {
      MutexLock lock(&mutex);
      while (value != 0) changed.Wait(&mutex);
      value = i;
      changed.NotifyAll();
    }
  });
  int sum = 0;
  for (int i = 1; i <= 1000; ++i) {
    MutexLock lock(&mutex);
    while (value == 0) changed.Wait(&mutex);
    sum += value;
    value = 0;
    changed.NotifyAll();
  }
  producer.join();
  EXPECT_EQ(sum, 500'500);
}

}  // namespace
}  // namespace headrace

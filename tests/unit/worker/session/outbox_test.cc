#include "worker/session/outbox.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace headrace {
namespace {

v1::ItemResult ResultOf(uint64_t item, size_t line_bytes) {
  v1::ItemResult result;
  result.set_item(item);
  result.set_line(std::string(line_bytes, 'x'));
  return result;
}

TEST(Outbox, ALargeResultGoesInAChunkOfItsOwn) {
  OutboxOptions options;
  options.chunk_bytes = 1000;
  Outbox outbox(options);
  outbox.Add(ResultOf(1, 10));
  outbox.Add(ResultOf(2, 5000));
  v1::BatchDone done;
  done.set_batch_id(7);
  outbox.Add(done);
  outbox.Add(ResultOf(3, 10));
  outbox.Flush();
  const v1::Results* chunk = outbox.NextToSend();
  ASSERT_NE(chunk, nullptr);
  ASSERT_EQ(chunk->results_size(), 1);
  EXPECT_EQ(chunk->results(0).item(), 1u);
  chunk = outbox.NextToSend();
  ASSERT_EQ(chunk->results_size(), 1);
  EXPECT_EQ(chunk->results(0).item(), 2u);
  EXPECT_EQ(chunk->done_size(), 0) << "it might not fit beside it";
  chunk = outbox.NextToSend();
  EXPECT_EQ(chunk->done_size(), 1);
  EXPECT_EQ(chunk->results_size(), 1);
  EXPECT_EQ(outbox.NextToSend(), nullptr);
  outbox.Ack(3);
  EXPECT_EQ(outbox.unacked_bytes(), 0u);
  EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, TheLongestLineMakesNoChunkThatIsTooLarge) {
  Outbox outbox{OutboxOptions()};
  outbox.set_max_chunk_bytes(1 << 20);
  for (size_t line_bytes : {outbox.max_line_bytes(), outbox.max_line_bytes() - 100}) {
    v1::ItemResult result = ResultOf(1, line_bytes);
    // As large as each of them can be.
    result.set_message(std::string(2000, 'x'));
    result.set_batch_id(~uint64_t{0});
    result.set_job_id(~uint64_t{0});
    result.set_error_class(~uint32_t{0});
    result.set_http_status(-1);
    for (auto set : {&v1::ItemResult::set_prompt_tokens, &v1::ItemResult::set_completion_tokens,
                     &v1::ItemResult::set_cached_tokens, &v1::ItemResult::set_queue_us,
                     &v1::ItemResult::set_network_us, &v1::ItemResult::set_first_token_us,
                     &v1::ItemResult::set_total_us}) {
      (result.*set)(-1);
    }
    outbox.Add(std::move(result));
    v1::WorkerMessage message;
    *message.mutable_results() = *outbox.NextToSend();
    EXPECT_LE(message.ByteSizeLong(), size_t{1} << 20);
    EXPECT_LE(message.results().ByteSizeLong(), outbox.largest_chunk_bytes());
  }
}

TEST(Outbox, ManySmallPartsAreGatheredUpToTheChunksSize) {
  OutboxOptions options;
  options.chunk_bytes = 10'000;
  Outbox outbox(options);
  for (uint64_t batch = 0; batch < 100; ++batch) {
    v1::BatchDone done;
    done.set_batch_id(batch);
    for (uint64_t item = 0; item < 1000; ++item) done.add_not_started(item);
    outbox.Add(std::move(done));
  }
  outbox.Flush();
  int parts = 0;
  while (const v1::Results* chunk = outbox.NextToSend()) {
    EXPECT_LE(chunk->ByteSizeLong(), 10'000u);
    parts += chunk->done_size();
  }
  EXPECT_EQ(parts, 100);
}

}  // namespace
}  // namespace headrace

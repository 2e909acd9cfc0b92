// A stream that is about to be destroyed is never named to the driver again, and its memory is not lost.
#include "memory_test.hpp"

namespace reprieve::memory {
namespace {

class ForgetStream : public MemoryTest {
 protected:
  Stream make_stream() {
    Stream stream{};
    EXPECT_TRUE(opened->stream_create(stream).ok());
    return stream;
  }
  void forget_and_destroy(Stream stream) {
    EXPECT_TRUE(allocator->forget_stream(stream).ok());
    EXPECT_TRUE(opened->stream_destroy(stream).ok());
  }
  std::uint64_t marks() const {
    return calls(device::Call::event_record) + calls(device::Call::event_record_all) +
           calls(device::Call::is_capturing);
  }
};

TEST_F(ForgetStream, WaitsForItsWork) {
  const Stream stream = make_stream();
  void* block = alloc(stream, 4 << 20);
  write(stream, block, 4 << 20, 7, 1'000'000);
  const std::uint64_t before = machine.now_ns();
  forget_and_destroy(stream);
  EXPECT_GE(machine.now_ns() - before, 1'000'000U);
  free(block);
}

TEST_F(ForgetStream, TrimGivesItsMemoryBackWithoutNamingIt) {
  const Stream stream = make_stream();
  void* live = alloc(stream, 32 << 20);
  free(alloc(stream, 64 << 20));
  forget_and_destroy(stream);
  const std::uint64_t before = marks();
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 32U << 20);
  free(live);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 0U);
  EXPECT_EQ(marks(), before);
}

TEST_F(ForgetStream, ItsFreeMemoryServesOtherStreams) {
  const Stream stream = make_stream();
  free(alloc(stream, 64 << 20));
  forget_and_destroy(stream);
  allocator->set_limit(64 << 20);
  free(alloc(make_stream(), 64 << 20));
}

TEST_F(ForgetStream, BlocksThatItUsedAreFreeAtOnce) {
  const Stream stream = make_stream();
  const Stream user = make_stream();
  void* block = alloc(stream, 4 << 20);
  record(block, user);
  forget_and_destroy(user);
  free(block);
  EXPECT_EQ(alloc(stream, 4 << 20), block);
  free(block);
}

// The driver may give a new stream the handle of an old one. Forgetting without destroying is the same to the pool.
TEST_F(ForgetStream, AnotherStreamOfTheSameHandleIsMarkedAgain) {
  const Stream stream = make_stream();
  void* block = alloc(stream, 4 << 20);
  free(block);
  EXPECT_TRUE(allocator->forget_stream(stream).ok());
  EXPECT_EQ(alloc(stream, 4 << 20), block);
  write(stream, block, 4 << 20, 9, 1'000'000);
  free(block);
  hold(stream);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 4U << 20) << "unmapped below work that is still queued";
  resume(stream);
  EXPECT_TRUE(allocator->trim(0).ok());
  EXPECT_EQ(reserved(), 0U);
}

}  // namespace
}  // namespace reprieve::memory

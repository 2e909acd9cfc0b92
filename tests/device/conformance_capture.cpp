// What the contract allows while a stream captures a graph in global mode, and that the capture survives it.
#include <thread>

#include "conformance.hpp"

namespace reprieve::device {

void CaptureConformance::SetUp() {
  Conformance::SetUp();
  if (IsSkipped() || HasFatalFailure()) return;
  capturing_ = stream();
  other_ = stream();
  event_ = event();
  ASSERT_TRUE(succeeded(device().event_record(event_, other_)));
  region_ = region(granule());
  subject_->begin_capture(device(), capturing_);
}

void CaptureConformance::TearDown() {
  if (device_ != nullptr && region_.at != 0) destroy(region_);
  Conformance::TearDown();
}

void CaptureConformance::all_legal_calls() {
  destroy(region(granule()));
  destroy(region(granule(), Location::host));
  EXPECT_GT(free_bytes(), 0U);
  Event local{};
  EXPECT_TRUE(succeeded(device().event_create(local)));
  EXPECT_TRUE(succeeded(device().event_record(local, other_)));
  wait(local);
  EXPECT_TRUE(done(local));
  EXPECT_TRUE(done(event_));
  EXPECT_TRUE(succeeded(device().event_destroy(local)));
}

TEST_P(CaptureConformance, LegalCallsFromTheCapturingThread) {
  all_legal_calls();
  EXPECT_TRUE(subject_->end_capture(device(), capturing_));
}

TEST_P(CaptureConformance, LegalCallsFromAnotherThread) {
  std::thread([&] { all_legal_calls(); }).join();
  EXPECT_TRUE(subject_->end_capture(device(), capturing_));
}

TEST_P(CaptureConformance, IsCapturingTellsWhichStreamDoes) {
  bool capturing = false;
  EXPECT_TRUE(succeeded(device().is_capturing(capturing_, capturing)));
  EXPECT_TRUE(capturing);
  EXPECT_TRUE(succeeded(device().is_capturing(other_, capturing)));
  EXPECT_FALSE(capturing);
  EXPECT_TRUE(subject_->end_capture(device(), capturing_));
  capturing = true;
  EXPECT_TRUE(succeeded(device().is_capturing(capturing_, capturing)));
  EXPECT_FALSE(capturing);
}

TEST_P(CaptureConformance, WorkOnAnotherStreamRuns) {
  fill(region_.at, 3, region_.bytes, other_);
  Event filled = event();
  EXPECT_TRUE(succeeded(device().event_record(filled, other_)));
  wait(filled);
  EXPECT_TRUE(subject_->end_capture(device(), capturing_));
  EXPECT_TRUE(holds(region_.at, region_.bytes, 3));
}

TEST_P(CaptureConformance, RecordAllIsRefusedAndSpoilsTheCapture) {
  if (device().properties().context_events) {
    const Event all = event();
    const Status status = device().event_record_all(all);
    EXPECT_TRUE(failed_as(status, Errc::device_error));
    EXPECT_EQ(status.driver, 900);  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    EXPECT_FALSE(subject_->end_capture(device(), capturing_));
  } else {
    EXPECT_TRUE(subject_->end_capture(device(), capturing_));
  }
}

TEST_P(CaptureConformance, AnEventOfTheGraphCannotBeQueried) {
  const Event captured = event();
  EXPECT_TRUE(succeeded(device().event_record(captured, capturing_)));
  bool out = false;
  EXPECT_TRUE(failed_as(device().event_query(captured, out), Errc::device_error));
  EXPECT_FALSE(out);
  (void)subject_->end_capture(device(), capturing_);  // the query spoiled it
}

}  // namespace reprieve::device

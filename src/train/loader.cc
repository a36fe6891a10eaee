#include "train/loader.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace sparkpilot::train {

Loader::Loader(const Samples& samples, Sampler sampler, int64_t batch, int64_t position, int ahead, int64_t skip)
    : samples_(samples), sampler_(std::move(sampler)), position_(position), skip_(skip) {
  if (batch < 1) fail("a batch of {} samples, expected at least 1", batch);
  if (ahead < 1) fail("{} batches are read ahead, expected at least 1", ahead);
  ring_.resize(static_cast<size_t>(ahead) + 1);  // and the one that the caller holds
  for (Batch& each : ring_) {
    each.indices.resize(static_cast<size_t>(batch));
    for (const Field& field : samples.fields()) {
      each.fields.push_back(Tensor::zeros(field.dtype, field.shape.inserted(0, batch)));
    }
  }
  thread_ = std::thread([this] { read_all(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Loader::read_all() {
  const auto size = static_cast<int64_t>(ring_.size());
  for (int64_t at = 0;; ++at) {
    {
      std::unique_lock lock(mutex_);
      // The batch that was taken last is in use until the next is asked for.
      changed_.wait(lock, [&] { return end_ || at - std::max<int64_t>(taken_ - 1, 0) < size; });
      if (end_) return;
    }
    Batch& into = ring_[static_cast<size_t>(at % size)];
    try {
      read(into);
    } catch (...) {
      into.error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      read_ = at + 1;
    }
    changed_.notify_all();
    if (into.error) return;
  }
}

void Loader::read(Batch& into) {
  for (size_t i = 0; i < into.indices.size(); ++i) {
    {
      const std::lock_guard lock(mutex_);
      if (end_) return;
    }
    if (const int64_t epoch = position_ / sampler_.size(); epoch != epoch_) {
      samples_.begin_epoch(epoch);
      epoch_ = epoch;
    }
    into.indices[i] = sampler_.at(position_++);
    read_entry(samples_, into.indices[i], into.fields, static_cast<int64_t>(i));
  }
  position_ += skip_;
}

std::span<const Tensor> Loader::next() {
  const int64_t start = now_ns();
  std::unique_lock lock(mutex_);
  const Batch& batch = ring_[static_cast<size_t>(taken_ % std::ssize(ring_))];
  ++taken_;
  changed_.notify_all();
  const bool waits = read_ < taken_;
  changed_.wait(lock, [&] { return read_ >= taken_; });
  if (waits) waited_ns_ += now_ns() - start;
  if (batch.error) {
    --taken_;  // asked again it fails again
    std::rethrow_exception(batch.error);
  }
  return batch.fields;
}

const Loader::Batch& Loader::last() const {
  if (taken_ == 0) fail_internal("the loader was asked for a batch before the first");
  return ring_[static_cast<size_t>((taken_ - 1) % std::ssize(ring_))];
}

}  // namespace sparkpilot::train

// The places of buffers, and whether the processor may access them.
#include "tensor/tensor.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace sparkpilot {
namespace {

// A page in `place`, inaccessible to the processor if the place implies that; counts how often it is released.
std::shared_ptr<Buffer> page(Place place, int* released) {
  constexpr size_t kBytes = 4096;
  void* data = ::mmap(nullptr, 2 * kBytes, host_reaches(place) ? PROT_READ | PROT_WRITE : PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(data, MAP_FAILED);
  return std::make_shared<Buffer>(place, static_cast<std::byte*>(data), kBytes, [data, released] {
    ++*released;
    ::munmap(data, 2 * kBytes);
  });
}

TEST(Place, OfAllocatedMemoryIsTheHost) {
  EXPECT_EQ(Buffer(16).place(), Place::host);
  EXPECT_EQ(Tensor(DType::f32, {2, 3}).place(), Place::host);
  EXPECT_EQ(Tensor().place(), Place::host);
}

TEST(Place, SaysWhoReachesIt) {
  EXPECT_TRUE(host_reaches(Place::host) && host_reaches(Place::pinned) && host_reaches(Place::unified));
  EXPECT_FALSE(host_reaches(Place::device));
  EXPECT_TRUE(device_reaches(Place::device) && device_reaches(Place::unified));
  EXPECT_FALSE(device_reaches(Place::host) || device_reaches(Place::pinned));
}

TEST(Place, MemoryOfOthersIsSharedAndGivenBackOnce) {
  for (const Place place : {Place::host, Place::pinned, Place::unified}) {
    int released = 0;
    {
      const Tensor whole(DType::f32, {4}, page(place, &released), 64);
      const Tensor shared = whole.reshaped({2, 2});
      whole.data<float>()[3] = 7;
      EXPECT_EQ(shared.data<float>()[3], 7);
      EXPECT_EQ(shared.place(), place);
      const Tensor copy = whole.clone();
      EXPECT_EQ(copy.place(), Place::host);
      EXPECT_EQ(copy.data<float>()[3], 7);
      EXPECT_EQ(released, 0);
    }
    EXPECT_EQ(released, 1) << name(place);
  }
}

TEST(Place, WhatTheProcessorCannotReachIsNotRead) {
  int released = 0;
  {
    const Tensor tensor(DType::f32, {1}, page(Place::device, &released), 0);
    EXPECT_THROW(tensor.data<float>(), Error);
    EXPECT_THROW(tensor.to_scalar(), Error);
    EXPECT_THROW(tensor.clone(), Error);
    EXPECT_THROW(convert(tensor, DType::f16), Error);
    const Tensor ints(DType::i64, {1}, tensor.buffer(), 0);
    EXPECT_THROW(ints.to_ints(), Error);
    EXPECT_EQ(tensor.reshaped({1, 1}).place(), Place::device);  // only the handle is copied: no byte is accessed
    EXPECT_EQ(convert(tensor, DType::f32).place(), Place::device);
  }
  EXPECT_EQ(released, 1);
}

TEST(Place, TensorsStayInsideMemoryOfOthers) {
  int released = 0;
  const auto buffer = page(Place::pinned, &released);
  EXPECT_THROW(Tensor(DType::f32, {1024}, buffer, 4), Error);
  EXPECT_THROW(Tensor(DType::f32, {1}, buffer, -4), Error);
}

}  // namespace
}  // namespace sparkpilot

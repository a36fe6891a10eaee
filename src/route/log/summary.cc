#include "route/log/summary.h"

#include <capnp/dynamic.h>
#include <capnp/schema.h>

#include <algorithm>

#include "base/error.h"
#include "route/contract/camera.h"
#include "route/log/reader.h"

namespace sparkpilot::drive {
namespace {

using Which = cereal::Event::Which;

constexpr uint64_t kSilence = 1'000'000'000;  // ns
constexpr double kSteadyHz = 5;               // in a decimated log not every stream is steady
constexpr size_t kMaxGaps = 100;

template <typename Enum>
std::string enum_name(Enum value) {
  const auto names = capnp::Schema::from<Enum>().getEnumerants();
  const auto at = static_cast<unsigned>(value);
  return at < names.size() ? names[at].getProto().getName().cStr() : fmt::format("unknown({})", at);
}

std::string text_of(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

// Streams with a fixed rate while the car is on.
bool is_steady(Which which) {
  switch (which) {
    case Which::CAN:
    case Which::CAR_STATE:
    case Which::CAR_CONTROL:
    case Which::CONTROLS_STATE:
    case Which::SELFDRIVE_STATE:
    case Which::ROAD_ENCODE_IDX:
    case Which::WIDE_ROAD_ENCODE_IDX:
    case Which::DRIVER_ENCODE_IDX:
    case Which::MODEL_V2:
    case Which::LIVE_LOCATION_KALMAN:
    case Which::LIVE_POSE:
    case Which::ACCELEROMETER:
    case Which::GYROSCOPE: return true;
    default: return false;
  }
}

class Summariser {
 public:
  explicit Summariser(const Route& route) : route_(route) {
    for (const char* name : {"road", "wide", "driver", "qcamera"}) out_.cameras.push_back({name, {}, {}, {}, {}});
  }

  void read(const Segment& segment, const std::function<void(double)>& progress) {
    SegmentSummary& part = out_.segments.emplace_back();
    part.number = segment.number;
    part.log = route_.log(segment);
    if (part.log.empty()) return;
    try {
      LogReader reader(part.log);
      while (reader.next()) {
        take(reader, part);
        constexpr int64_t kEach = 4096;
        if (progress && reader.events() % kEach == 0) progress(reader.done());
      }
      part.damage = reader.damage();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::user) throw;
      part.damage = error.what();
      if (!refused_) refused_ = error;
      return;
    }
    opened_ = true;
  }

  RouteSummary finish() {
    if (refused_ && !opened_) throw Error(*refused_);
    const double seconds = out_.seconds();
    for (const SilentGap& gap : gaps_) {
      if (static_cast<double>(out_.kinds[gap.kind]) < kSteadyHz * seconds) continue;
      if (out_.gaps.size() < kMaxGaps) out_.gaps.push_back(gap);
      ++out_.gap_count;
    }
    finish_cameras();
    return std::move(out_);
  }

 private:
  void take(const LogReader& reader, SegmentSummary& part) {
    const cereal::Event::Reader& event = reader.event();
    const auto which = static_cast<size_t>(event.which());
    if (which >= counts_.size()) counts_.resize(which + 1, nullptr);
    if (!counts_[which]) counts_[which] = &out_.kinds[event_kind(event)];
    ++*counts_[which];
    ++part.events;
    part.log_bytes += reader.event_bytes();
    if (!read_fields([&] { take_fields(event, part.number); })) ++part.damaged_events;
    if (event.which() == Which::INIT_DATA) return;
    const uint64_t time = event.getLogMonoTime();
    part.first_ns = std::min(part.first_ns.value_or(time), time);
    part.last_ns = std::max(part.last_ns.value_or(time), time);
    out_.first_ns = std::min(out_.first_ns.value_or(time), time);
    if (is_steady(event.which())) note_silence(event, part.number);
  }

  void take_fields(const cereal::Event::Reader& event, int segment) {
    switch (event.which()) {
      case Which::INIT_DATA: take_init(event.getInitData()); break;
      case Which::CAR_PARAMS:
        out_.fingerprint = text_of(event.getCarParams().getCarFingerprint());
        out_.brand = text_of(event.getCarParams().getBrand());
        break;
      case Which::DEVICE_STATE:
        if (out_.device.empty()) out_.device = enum_name(event.getDeviceState().getDeviceType());
        break;
      case Which::CLOCKS: take_clock(event.getClocks().getWallTimeNanos(), event.getLogMonoTime()); break;
      case Which::ROAD_CAMERA_STATE: sensor_ = enum_name(event.getRoadCameraState().getSensor()); break;
      case Which::LIVE_CALIBRATION: take_calibration(event.getLiveCalibration(), event.getLogMonoTime()); break;
      case Which::ROAD_ENCODE_IDX: take_frame(0, event.getRoadEncodeIdx(), segment); break;
      case Which::WIDE_ROAD_ENCODE_IDX: take_frame(1, event.getWideRoadEncodeIdx(), segment); break;
      case Which::DRIVER_ENCODE_IDX: take_frame(2, event.getDriverEncodeIdx(), segment); break;
      case Which::Q_ROAD_ENCODE_IDX: take_frame(3, event.getQRoadEncodeIdx(), segment); break;
      default: break;
    }
  }

  void take_init(const cereal::InitData::Reader& init) {
    out_.device = enum_name(init.getDeviceType());
    out_.dongle = text_of(init.getDongleId());
    out_.version = text_of(init.getVersion());
    out_.branch = text_of(init.getGitBranch());
    out_.commit = text_of(init.getGitCommit());
  }

  // The wall-clock time of the route's first event; until the device knows the time, its clock is near 1970.
  void take_clock(uint64_t wall, uint64_t mono) {
    constexpr uint64_t kYear2010 = 1'262'304'000'000'000'000;
    if (out_.wall_time_ns || wall < kYear2010 || !out_.first_ns || mono < *out_.first_ns) return;
    out_.wall_time_ns = wall - (mono - *out_.first_ns);
  }

  void take_calibration(const cereal::LiveCalibrationData::Reader& data, uint64_t time) {
    CalibrationReading reading;
    const auto rpy = data.getRpyCalib();
    if (rpy.size() != reading.rpy.size()) return;  // not yet known
    for (unsigned i = 0; i < rpy.size(); ++i) reading.rpy[i] = rpy[i];
    reading.status = enum_name(data.getCalStatus());
    reading.percent = data.getCalPerc();
    reading.mono_time_ns = time;
    ++out_.calibrations;
    if (!out_.first_calibration) out_.first_calibration = reading;
    out_.last_calibration = reading;
  }

  void take_frame(size_t camera, const cereal::EncodeIndex::Reader& index, int segment) {
    std::vector<CameraPart>& parts = out_.cameras[camera].parts;
    const int64_t frame = index.getFrameId();
    if (parts.empty() || parts.back().segment != segment) {
      // After a missing segment, lost frames are not counted.
      const bool follows = !parts.empty() && parts.back().segment + 1 == segment;
      const int64_t before = follows ? parts.back().last_frame : frame - 1;
      parts.push_back({segment, 1, index.getFrameId(), index.getFrameId(), std::max<int64_t>(0, frame - before - 1)});
      return;
    }
    CameraPart& part = parts.back();
    ++part.frames;
    part.missing += std::max<int64_t>(0, frame - part.last_frame - 1);
    part.last_frame = std::max(part.last_frame, index.getFrameId());
  }

  void note_silence(const cereal::Event::Reader& event, int segment) {
    const auto which = static_cast<size_t>(event.which());
    const uint64_t time = event.getLogMonoTime();
    if (which >= last_.size()) last_.resize(which + 1);
    auto& last = last_[which];
    constexpr size_t kMaxKept = 100'000;  // gaps kept until it is known which streams are steady
    // After a missing segment, silence means nothing.
    if (last && time > last->first + kSilence && segment <= last->second + 1 && gaps_.size() < kMaxKept) {
      gaps_.push_back({event_kind(event), segment, last->first, static_cast<double>(time - last->first) / 1e9});
    }
    last = std::pair(last ? std::max(last->first, time) : time, segment);
  }

  void finish_cameras() {
    constexpr std::array kVideos = {&Segment::road_video, &Segment::wide_video, &Segment::driver_video,
                                    &Segment::qcamera};
    const auto known = device_cameras(out_.device, sensor_);
    const std::array<const Camera*, 3> sizes = {known ? &known->road : nullptr, known ? &known->wide : nullptr,
                                                known ? &known->driver : nullptr};
    for (size_t i = 0; i < kVideos.size(); ++i) {
      CameraSummary& camera = out_.cameras[i];
      for (const Segment& segment : route_.segments) {
        if (!(segment.*kVideos[i]).empty()) camera.files.push_back(segment.number);
      }
      if (i < sizes.size() && sizes[i] && sizes[i]->width > 0) {
        camera.width = sizes[i]->width;
        camera.height = sizes[i]->height;
      }
    }
    std::erase_if(out_.cameras,
                  [](const CameraSummary& camera) { return camera.files.empty() && camera.parts.empty(); });
  }

  const Route& route_;
  RouteSummary out_;
  std::vector<int64_t*> counts_;                               // pointers into out_.kinds, by the number of the kind
  std::vector<std::optional<std::pair<uint64_t, int>>> last_;  // time and segment of each kind's last event
  std::vector<SilentGap> gaps_;
  std::string sensor_ = "unknown";
  std::optional<Error> refused_;
  bool opened_ = false;
};

}  // namespace

int64_t RouteSummary::events() const {
  int64_t sum = 0;
  for (const SegmentSummary& segment : segments) sum += segment.events;
  return sum;
}

double RouteSummary::seconds() const {
  double sum = 0;
  for (const SegmentSummary& segment : segments) sum += segment.seconds();
  return sum;
}

RouteSummary summarise(const Route& route, const std::function<void(double)>& progress) {
  Summariser summariser(route);
  const auto count = static_cast<double>(route.segments.size());
  for (size_t i = 0; i < route.segments.size(); ++i) {
    const auto part = [&](double done) {
      if (progress) progress((static_cast<double>(i) + done) / count);
    };
    part(0);
    summariser.read(route.segments[i], part);
  }
  return summariser.finish();
}

}  // namespace sparkpilot::drive

#include "sim/tinyphysics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <random>

#include "base/error.h"
#include "base/parallel.h"
#include "sim/md5.h"
#include "sim/tinyphysics_network.h"

namespace sparkpilot::sim {
namespace {

constexpr int64_t kEnd = 500;   // the row after the last that counts
constexpr int64_t kAhead = 50;  // a plan ends before this many rows ahead
constexpr int64_t kBatchOnCpu = 16;
constexpr double kTemperature = 0.8, kMostAction = 2, kMostChange = 0.5;

// The centres of the bins, numpy.linspace(-most, most, count), and values as their numbers.
struct Bins {
  std::vector<double> centres;

  Bins(int64_t count, double most) {
    const double step = 2 * most / static_cast<double>(count - 1);
    for (int64_t i = 0; i < count; ++i) centres.push_back(static_cast<double>(i) * step - most);
    centres.back() = most;
  }
  // numpy.digitize(clip(value), bins, right=True)
  int64_t token_of(double value) const {
    return std::ranges::lower_bound(centres, std::clamp(value, centres.front(), centres.back())) - centres.begin();
  }
};

// RandomState.random_sample()
double random_sample(std::mt19937& generator) {
  const uint64_t high = static_cast<uint32_t>(generator()) >> 5, low = static_cast<uint32_t>(generator()) >> 6;
  return (static_cast<double>(high) * 67108864.0 + static_cast<double>(low)) / 9007199254740992.0;
}

// RandomState.choice(bins, p=probabilities), given its random number; -1 if the probabilities are none. `sum` is its
// memory.
int sample(std::span<const float> probabilities, double number, std::vector<double>& sum) {
  sum.resize(probabilities.size());
  double total = 0;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = total += static_cast<double>(probabilities[i]);
  if (!(total > 0 && std::isfinite(total))) return -1;
  const auto found =
      std::upper_bound(sum.begin(), sum.end(), number, [total](double u, double upto) { return u < upto / total; });
  return static_cast<int>(found - sum.begin());
}

// The routes of a slice, while they run.
struct World {
  const ChallengeRoute* route = nullptr;
  TinyPhysicsRollout* out = nullptr;
  std::string_view name;
  int64_t end = 0;               // the row after its last one
  std::vector<double> numbers;   // random, one for each row from 100 on
  std::vector<double> lataccel;  // by row; its last is the present one
  std::vector<double> actions;   // by row, from the first that is computed on as they were clipped
  std::vector<float> states;     // by row, as the network sees them
  std::vector<int64_t> tokens;   // of lataccel
};

ChallengeCosts costs_of(const World& world) {
  double lataccel = 0, jerk = 0;
  for (int64_t i = kChallengeStart; i < world.end; ++i) {
    const auto at = static_cast<size_t>(i);
    const double off = world.route->target[at] - world.lataccel[at];
    lataccel += off * off;
    if (i == kChallengeStart) continue;
    const double change = (world.lataccel[at] - world.lataccel[at - 1]) / 0.1;
    jerk += change * change;
  }
  const auto rows = static_cast<double>(world.end - kChallengeStart);
  ChallengeCosts costs{.lataccel = lataccel / rows * 100, .jerk = jerk / (rows - 1) * 100};
  costs.total = costs.lataccel * 50 + costs.jerk;
  return costs;
}

void finish(World& world, bool trajectory) {
  if (world.out->diverged_at < 0 && world.out->failed.empty()) world.out->costs = costs_of(world);
  if (trajectory) world.out->lataccel = world.lataccel, world.out->actions = world.actions;
}

void begin(World& world, const TinyPhysicsTask& task, int64_t context, const Bins& bins, TinyPhysicsRollout& out) {
  world.route = task.route;
  world.out = &out;
  world.name = task.name;
  world.end = std::min(task.route->rows(), kEnd);
  std::mt19937 generator(task.seed);
  for (int64_t i = context; i < kChallengeStart; ++i) random_sample(generator);
  world.numbers.clear();
  for (int64_t i = kChallengeStart; i < world.end; ++i) world.numbers.push_back(random_sample(generator));
  const ChallengeRoute& route = *task.route;
  world.lataccel.assign(route.target.begin(), route.target.begin() + context);
  world.actions.assign(route.steer.begin(), route.steer.begin() + context);
  world.tokens.clear();
  for (const double value : world.lataccel) world.tokens.push_back(bins.token_of(value));
  world.states.clear();
  for (size_t i = 0; i < static_cast<size_t>(world.end); ++i) {
    for (const double value : {static_cast<int64_t>(i) < context ? route.steer[i] : 0, route.roll_lataccel[i],
                               route.v_ego[i], route.a_ego[i]})
      world.states.push_back(static_cast<float>(value));
  }
}

ChallengeInput input_of(const World& world, int64_t row) {
  const ChallengeRoute& route = *world.route;
  const auto at = static_cast<size_t>(row);
  const size_t from = std::min(at + 1, route.target.size()),
               count = std::min<size_t>(kAhead - 1, route.target.size() - from);
  const auto ahead = [&](const std::vector<double>& column) { return std::span(column).subspan(from, count); };
  return {.target = route.target[at],
          .current = world.lataccel.back(),
          .roll_lataccel = route.roll_lataccel[at],
          .v_ego = route.v_ego[at],
          .a_ego = route.a_ego[at],
          .plan = {ahead(route.target), ahead(route.roll_lataccel), ahead(route.v_ego), ahead(route.a_ego)}};
}

// What a thread has of its own for its share of a slice's routes.
struct Hand {
  std::unique_ptr<ChallengeController> controller;
  std::vector<double> sum;  // of a draw
};

// Routes that run in step, and the session that computes the network for them.
class Slice {
 public:
  // The other two outlive it.
  Slice(const Graph& graph, const PlantNetwork& plant, const Bins& bins)
      : session_(graph, plant.session), plant_(plant), bins_(bins), context_(plant.context) {
    session_.compile();
    std::ranges::fill(session_.input<float>(plant_.states), 0.0F);
    if (plant_.narrow) std::ranges::fill(session_.input<int32_t>(plant_.tokens), 0);
    else std::ranges::fill(session_.input<int64_t>(plant_.tokens), 0);
  }

  // At most a batch of tasks, of which each hand has a share, on a thread of its own if there are several. `more` is
  // asked after each step of `routes` whether to go on. False: it was stopped.
  bool run(std::span<const TinyPhysicsTask> tasks, std::span<TinyPhysicsRollout> out, std::span<Hand> hands,
           bool trajectories, const std::function<bool(int64_t routes)>& more) {
    worlds_.resize(tasks.size());
    inputs_.resize(worlds_.size()), actions_.resize(worlds_.size());
    for_shares(hands, [&](Hand& hand, size_t first, size_t last) {
      for (size_t k = first; k < last; ++k) begin(worlds_[k], tasks[k], context_, bins_, out[k]);
      hand.controller->reset(last - first);
    });
    int64_t end = 0;
    for (const World& world : worlds_) end = std::max(end, world.end);
    for (int64_t row = context_; row < end; ++row) {
      const View states = session_.input(plant_.states), tokens = session_.input(plant_.tokens);
      for_shares(hands, [&](Hand& hand, size_t first, size_t last) {
        control(*hand.controller, row, first, last);
        if (row < kChallengeStart) return;
        for (size_t k = first; k < last; ++k) show_network(worlds_[k], k, row, states, tokens);
      });
      int64_t alive = 0;
      for (const World& world : worlds_) alive += row < world.end;
      std::span<const float> probabilities;
      if (row >= kChallengeStart && alive > 0) {
        session_.run();
        probabilities = session_.output<float>(kProbabilities);
      }
      for_shares(hands, [&](Hand& hand, size_t first, size_t last) {
        for (size_t k = first; k < last; ++k) {
          if (row < worlds_[k].end) move(worlds_[k], k, row, probabilities, hand.sum);
        }
      });
      if (!more(alive)) return false;
    }
    for_shares(hands, [&](Hand&, size_t first, size_t last) {
      for (size_t k = first; k < last; ++k) finish(worlds_[k], trajectories);
    });
    return true;
  }
  const std::string& device() const { return session_.device(); }

 private:
  // fn(hand, first, last) for the routes of each hand that has some.
  template <class Fn>
  void for_shares(std::span<Hand> hands, const Fn& fn) {
    const size_t count = hands.size(), routes = worlds_.size();
    parallel_for(static_cast<int64_t>(count), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        const size_t first = i * routes / count, last = (i + 1) * routes / count;
        if (first < last) fn(hands[i], first, last);
      }
    });
  }

  // Routes that have ended are given their last row again; what comes of it is not used.
  void control(ChallengeController& controller, int64_t row, size_t first, size_t last) {
    for (size_t k = first; k < last; ++k) inputs_[k] = input_of(worlds_[k], std::min(row, worlds_[k].end - 1));
    controller.update(std::span(inputs_).subspan(first, last - first),
                      std::span(actions_).subspan(first, last - first));
    for (size_t k = first; k < last; ++k) {
      World& world = worlds_[k];
      if (row >= world.end) continue;
      double action = row < kChallengeStart ? world.route->steer[static_cast<size_t>(row)] : actions_[k];
      const std::string failure = controller.failure(k - first);
      if (!failure.empty() || !std::isfinite(action)) {
        if (failure.empty()) world.out->diverged_at = row;
        else world.out->failed = fmt::format("{}, in row {}", failure, row);
        world.end = row;
        continue;
      }
      action = std::clamp(action, -kMostAction, kMostAction);
      world.actions.push_back(action);
      world.states[static_cast<size_t>(row * kPlantFeatures)] = static_cast<float>(action);
    }
  }

  // Writes the last rows of the slice's `k`th world into the network's inputs.
  void show_network(const World& world, size_t k, int64_t row, const View& states, const View& tokens) const {
    if (row >= world.end) return;
    const int64_t at = static_cast<int64_t>(k) * context_;
    std::copy_n(&world.states[static_cast<size_t>((row + 1 - context_) * kPlantFeatures)], context_ * kPlantFeatures,
                states.as<float>() + at * kPlantFeatures);
    const auto last = world.tokens.end() - context_;
    if (plant_.narrow) std::copy(last, world.tokens.end(), tokens.as<int32_t>() + at);
    else std::copy(last, world.tokens.end(), tokens.as<int64_t>() + at);
  }

  void move(World& world, size_t k, int64_t row, std::span<const float> probabilities, std::vector<double>& sum) {
    double next = world.route->target[static_cast<size_t>(row)];
    if (row >= kChallengeStart) {
      const size_t bins = bins_.centres.size();
      const int token =
          sample(probabilities.subspan(k * bins, bins), world.numbers[static_cast<size_t>(row - kChallengeStart)], sum);
      if (token < 0) {
        fail("{}: row {}: the network's output is not finite", world.name, row);
      }
      world.out->tokens.push_back(static_cast<int16_t>(token));
      const double now = world.lataccel.back();
      next = std::clamp(bins_.centres[static_cast<size_t>(token)], now - kMostChange, now + kMostChange);
    }
    world.lataccel.push_back(next);
    world.tokens.push_back(bins_.token_of(next));
  }

  Session session_;
  const PlantNetwork& plant_;
  const Bins& bins_;
  int64_t context_;
  std::vector<World> worlds_;
  std::vector<ChallengeInput> inputs_;
  std::vector<double> actions_;
};

}  // namespace

uint32_t challenge_seed(std::string_view path) {
  uint32_t rest = 0;
  for (const uint8_t byte : md5(path)) rest = (rest * 256 + byte) % 10000;
  return rest;
}

struct TinyPhysics::Impl {
  Graph graph;
  PlantNetwork plant;
  Bins bins;
  TinyPhysicsOptions options;
  std::vector<std::unique_ptr<Slice>> slices;  // one for each thread; on a GPU one

  std::unique_ptr<Slice> slice() const { return std::make_unique<Slice>(graph, plant, bins); }
};

TinyPhysics::TinyPhysics(Graph graph, const std::string& name, TinyPhysicsOptions options) {
  if (!(options.most_lataccel > 0 && options.most_lataccel <= 1000)) {
    fail("bins up to {} m/s^2, expected above 0 to 1000", options.most_lataccel);
  }
  PlantNetwork plant = plant_network(graph, name, kTemperature);
  plant.session.memory_reserve = options.memory_reserve;
  plant.session.tune = Tune::off;
  const Bins bins(plant.bins, options.most_lataccel);
  const std::string wanted = options.device;
  impl_ = std::make_unique<Impl>(Impl{std::move(graph), std::move(plant), bins, std::move(options), {}});
  impl_->slices.resize(1);
  const auto make = [&](const std::string& where, int64_t usual_batch) {
    PlantNetwork& network = impl_->plant;
    choose_batch(network, name, impl_->options.batch, usual_batch);
    network.session.device = where;
    network.session.threads = where == "cpu" ? 1 : 0;
    impl_->slices[0] = impl_->slice();
  };
  // `auto` is asked with the CPU's batch, which is what it mostly ends with.
  make(wanted, wanted == "cpu" || wanted == "auto" ? kBatchOnCpu : impl_->options.batch_on_gpu);
  if (wanted != "auto") return;
  const std::string taken = device();
  if (taken == "cpu") make("cpu", kBatchOnCpu);
  else make(taken, impl_->options.batch_on_gpu);
}

TinyPhysics::~TinyPhysics() = default;

int64_t TinyPhysics::batch() const { return impl_->plant.batch; }
const std::string& TinyPhysics::device() const { return impl_->slices[0]->device(); }

std::vector<TinyPhysicsRollout> TinyPhysics::run(std::span<const TinyPhysicsTask> tasks,
                                                 const ChallengeControllerMaker& controller) {
  const TinyPhysicsOptions& options = impl_->options;
  std::vector<TinyPhysicsRollout> out(tasks.size());
  const auto batch = static_cast<size_t>(impl_->plant.batch);
  const size_t count = (tasks.size() + batch - 1) / batch;
  int64_t all = 0;
  for (const TinyPhysicsTask& task : tasks) {
    if (task.route->rows() < kChallengeStart + 2) fail_internal("a route has {} rows", task.route->rows());
    all += std::min(task.route->rows(), kEnd) - impl_->plant.context;
  }
  const auto threads = static_cast<size_t>(options.threads > 0 ? options.threads : available_processors());
  const bool on_cpu = impl_->plant.session.device == "cpu";
  const size_t lanes = on_cpu ? std::min(threads, count) : 1;
  const size_t hands = on_cpu ? 1 : std::min({threads, batch, tasks.size()});  // of a lane
  auto& slices = impl_->slices;
  while (slices.size() < lanes) slices.push_back(impl_->slice());
  std::mutex mutex;
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  int64_t done = 0;
  const auto more = [&](int64_t routes) {
    if (options.progress) {
      const std::lock_guard lock(mutex);
      done += routes;
      options.progress(std::min(static_cast<double>(done) / static_cast<double>(all), 1.0));  // some may run again
    }
    return !failed && !(options.stop != nullptr && *options.stop);
  };
  // False: it was stopped.
  const std::function<bool(Slice&, std::span<Hand>, size_t, size_t)> run_some = [&](Slice& slice, std::span<Hand> own,
                                                                                    size_t first, size_t last) {
    try {
      return slice.run(tasks.subspan(first, last - first), std::span(out).subspan(first, last - first), own,
                       options.trajectories, more);
    } catch (const ControllerLost& lost) {
      if (!more(0)) return false;
      for (size_t k = first; k < last; ++k) out[k] = {};
      if (last - first == 1) {
        out[first].failed = lost.what();
        return true;
      }
    }
    const size_t middle = first + (last - first) / 2;
    return run_some(slice, own, first, middle) && run_some(slice, own, middle, last);
  };
  const auto work = [&](Slice& slice) {
    std::vector<Hand> own(hands);
    for (Hand& hand : own) hand.controller = controller();
    for (size_t at = next++; at < count; at = next++) {
      const size_t first = at * batch, last = std::min(first + batch, tasks.size());
      if (!run_some(slice, own, first, last)) {
        for (size_t k = first; k < last; ++k) out[k] = {};
        return;
      }
      if (!options.finished) continue;
      const std::lock_guard lock(mutex);
      for (size_t k = first; k < last; ++k) options.finished(k, out[k]);
    }
  };
  const ThreadScope scope(static_cast<int>(std::max(lanes, hands)));
  parallel_for(static_cast<int64_t>(lanes), 1, [&](int64_t begin, int64_t end) {
    for (int64_t lane = begin; lane < end; ++lane) {
      try {
        work(*slices[static_cast<size_t>(lane)]);
      } catch (...) {
        failed = true;
        throw;
      }
    }
  });
  return out;
}

}  // namespace sparkpilot::sim

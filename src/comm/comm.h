// Several processes of one run, started by a launcher such as mpirun. MPI is loaded only then: a process without a
// launcher is rank 0 of 1 and searches for no library.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace sparkpilot {

class Comm {
 public:
  // Joins the launcher's other processes if a launcher started this one. Fails (user) if so but this build has no MPI,
  // as each process would then do all the work. Once per process, before other threads start.
  Comm();
  // Leaves: waits for the others, as MPI does.
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Waits until every process has called it.
  void barrier();
  // The largest of the processes' values.
  int max(int value);
  // Adds up the processes' values, in place; all have the same number of them.
  void sum(std::span<float> values);
  // One process's text, below 2 GiB, in every process.
  std::string share(std::string text, int from = 0);
  // Fails (user) in every process if a process has another text than process 0: "process 1 has another WHAT than
  // process 0".
  void expect_alike(const std::string& what, const std::string& text);
  // Every process's text, in the order of their ranks, in process 0; nothing in the others. Fails (user) in all of them
  // if the texts have 2 GiB together.
  std::vector<std::string> gather(std::string text);
  // Does `work` in every process and waits until all are done. Empty if it threw in none; else in every process what it
  // threw in the first of those where it did: "process 1: no room".
  std::string first_problem(const std::function<void()>& work);
  // Does `work` in every process and waits until all are done. If it throws in some, the first of these rethrows its
  // exception and all others throw FailedElsewhere: one process reports the failure, and none waits for another.
  void together(const std::function<void()>& work);

 private:
  struct Mpi;
  int first_with(bool trouble);  // the lowest rank in trouble; size() without any
  std::unique_ptr<Mpi> mpi_;
  int rank_ = 0, size_ = 1;
};

// Another process of the run failed, and reports why.
class FailedElsewhere : public Error {
 public:
  using Error::Error;
};

// This process's number under a launcher, before MPI is joined; 0 without one.
int launcher_rank();
// Its number among the launcher's processes on this machine; 0 without a launcher.
int launcher_local_rank();
// For a failure before MPI is joined that all processes have: the others call this to wait, so that the first can
// report why. A launcher ends all processes as soon as one has failed; otherwise the wait ends after two seconds.
void let_first_process_tell();
// The variable that says how many processes a launcher started ("OMPI_COMM_WORLD_SIZE=3"); empty without one.
std::string launcher_variable();

}  // namespace sparkpilot

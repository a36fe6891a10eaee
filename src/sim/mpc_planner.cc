#include "sim/mpc_planner-inl.h"

namespace sparkpilot::sim::scalar {

template void plan_by_mpc(const MpcPlannerConstants<float>&, const Motion<float>&, const float&,
                          const LeadState<float>&, const float&, const float&, MpcPlanner<float>&, float&);
template void plan_by_mpc(const MpcPlannerConstants<double>&, const Motion<double>&, const double&,
                          const LeadState<double>&, const double&, const double&, MpcPlanner<double>&, double&);

}  // namespace sparkpilot::sim::scalar

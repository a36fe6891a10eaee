#include "route/log/model_fields.h"

#include "route/log/plan_error.h"

namespace sparkpilot::drive {
namespace {

using R = ModelRecord;
using P = Polyline;
using L = LeadRecord;

// A list of the message: position.x
template <auto Line, auto Axis>
void line(const R& r, FieldValues& out) {
  out.add((r.*Line).*Axis);
}

// The lists of all lines or leads: laneLines[].y
template <auto Items, auto Axis>
void each(const R& r, FieldValues& out) {
  for (const auto& item : r.*Items) out.add(item.*Axis);
}

template <auto List>
void list(const R& r, FieldValues& out) {
  out.add(r.*List);
}

template <auto Member>
void number(const R& r, FieldValues& out) {
  out.add(static_cast<float>(r.*Member));
}

// Logs without an action yield no value, instead of a list of zeros.
template <auto Member>
void action(const R& r, FieldValues& out) {
  if (r.action) out.add(static_cast<float>((*r.action).*Member));
}

template <auto Axis, int Seconds>
void place(const R& r, FieldValues& out) {
  if (const auto value = interpolate(r.position.t, r.position.*Axis, Seconds)) out.add(static_cast<float>(*value));
}

void first_speed(const R& r, FieldValues& out) {
  if (!r.velocity.x.empty()) out.add(r.velocity.x.front());
}

void lead_probs(const R& r, FieldValues& out) {
  for (const LeadRecord& lead : r.leads) out.add(lead.prob);
}

constexpr const char* kPlan = "half precision keeps a thousandth, and a plan of 250 m adds up layers of it";
constexpr const char* kNear = "a hand's breadth within seconds would move the wheel";
constexpr const char* kControl = "what the car is asked to do: the steering and the pedals resolve no less";
constexpr const char* kLine = "a tenth of a lane line's own deviation";
constexpr const char* kFar = "distances of cars far ahead are uncertain by metres";
constexpr const char* kShare = "a probability moves this much where a logit of half precision does";
constexpr const char* kSpread = "a standard deviation is the exponential of an output";
constexpr const char* kYesNo = "yes or no";

constexpr ModelField kFields[] = {
    {{"position_x", "m", {0.1, 0.01}, kPlan}, line<&R::position, &P::x>},
    {{"position_y", "m", {0.05, 0.01}, kPlan}, line<&R::position, &P::y>},
    {{"position_z", "m", {0.05, 0.01}, kPlan}, line<&R::position, &P::z>},
    {{"position_x_at_1_s", "m", {0.05, 0.005}, kNear}, place<&P::x, 1>},
    {{"position_y_at_1_s", "m", {0.02, 0.01}, kNear}, place<&P::y, 1>},
    {{"position_z_at_1_s", "m", {0.02, 0.01}, kNear}, place<&P::z, 1>},
    {{"position_x_at_2_s", "m", {0.05, 0.005}, kNear}, place<&P::x, 2>},
    {{"position_y_at_2_s", "m", {0.03, 0.01}, kNear}, place<&P::y, 2>},
    {{"position_z_at_2_s", "m", {0.03, 0.01}, kNear}, place<&P::z, 2>},
    {{"position_x_at_4_s", "m", {0.1, 0.01}, kPlan}, place<&P::x, 4>},
    {{"position_y_at_4_s", "m", {0.05, 0.01}, kPlan}, place<&P::y, 4>},
    {{"position_z_at_4_s", "m", {0.05, 0.01}, kPlan}, place<&P::z, 4>},
    {{"position_x_at_6_s", "m", {0.1, 0.01}, kPlan}, place<&P::x, 6>},
    {{"position_y_at_6_s", "m", {0.05, 0.01}, kPlan}, place<&P::y, 6>},
    {{"position_z_at_6_s", "m", {0.05, 0.01}, kPlan}, place<&P::z, 6>},
    {{"position_x_std", "m", {0.05, 0.05}, kSpread}, line<&R::position, &P::x_std>},
    {{"position_y_std", "m", {0.05, 0.05}, kSpread}, line<&R::position, &P::y_std>},
    {{"position_z_std", "m", {0.05, 0.05}, kSpread}, line<&R::position, &P::z_std>},
    {{"velocity_x_now", "m/s", {0.05, 0.005}, kNear}, first_speed},
    {{"velocity_x", "m/s", {0.05, 0.01}, kPlan}, line<&R::velocity, &P::x>},
    {{"velocity_y", "m/s", {0.05, 0.01}, kPlan}, line<&R::velocity, &P::y>},
    {{"velocity_z", "m/s", {0.05, 0.01}, kPlan}, line<&R::velocity, &P::z>},
    {{"acceleration_x", "m/s^2", {0.05, 0.02}, kPlan}, line<&R::acceleration, &P::x>},
    {{"acceleration_y", "m/s^2", {0.05, 0.02}, kPlan}, line<&R::acceleration, &P::y>},
    {{"acceleration_z", "m/s^2", {0.05, 0.02}, kPlan}, line<&R::acceleration, &P::z>},
    {{"orientation_roll", "rad", {0.005, 0.01}, kPlan}, line<&R::orientation, &P::x>},
    {{"orientation_pitch", "rad", {0.005, 0.01}, kPlan}, line<&R::orientation, &P::y>},
    {{"orientation_yaw", "rad", {0.005, 0.01}, kPlan}, line<&R::orientation, &P::z>},
    {{"orientation_rate_roll", "rad/s", {0.005, 0.01}, kPlan}, line<&R::orientation_rate, &P::x>},
    {{"orientation_rate_pitch", "rad/s", {0.005, 0.01}, kPlan}, line<&R::orientation_rate, &P::y>},
    {{"orientation_rate_yaw", "rad/s", {0.005, 0.01}, kPlan}, line<&R::orientation_rate, &P::z>},
    {{"desired_curvature", "1/m", {0.0001, 0.01}, kControl}, action<&ActionRecord::curvature>},
    {{"desired_acceleration", "m/s^2", {0.03, 0.01}, kControl}, action<&ActionRecord::acceleration>},
    {{"should_stop", "", {0, 0}, kYesNo}, action<&ActionRecord::should_stop>},
    {{"lane_lines_y", "m", {0.05, 0.01}, kLine}, each<&R::lane_lines, &P::y>},
    {{"lane_lines_z", "m", {0.05, 0.01}, kLine}, each<&R::lane_lines, &P::z>},
    {{"lane_lines_t", "s", {0.02, 0.02}, kPlan}, each<&R::lane_lines, &P::t>},
    {{"lane_line_probs", "", {0.02, 0}, kShare}, list<&R::lane_line_probs>},
    {{"lane_line_stds", "m", {0.02, 0.05}, kSpread}, list<&R::lane_line_stds>},
    {{"road_edges_y", "m", {0.1, 0.01}, kLine}, each<&R::road_edges, &P::y>},
    {{"road_edges_z", "m", {0.05, 0.01}, kLine}, each<&R::road_edges, &P::z>},
    {{"road_edges_t", "s", {0.02, 0.02}, kPlan}, each<&R::road_edges, &P::t>},
    {{"road_edge_stds", "m", {0.05, 0.05}, kSpread}, list<&R::road_edge_stds>},
    {{"leads_x", "m", {0.3, 0.01}, kFar}, each<&R::leads, &L::x>},
    {{"leads_y", "m", {0.1, 0.01}, kFar}, each<&R::leads, &L::y>},
    {{"leads_v", "m/s", {0.2, 0.01}, kFar}, each<&R::leads, &L::v>},
    {{"leads_a", "m/s^2", {0.1, 0.02}, kFar}, each<&R::leads, &L::a>},
    {{"leads_x_std", "m", {0.2, 0.05}, kSpread}, each<&R::leads, &L::x_std>},
    {{"leads_y_std", "m", {0.1, 0.05}, kSpread}, each<&R::leads, &L::y_std>},
    {{"leads_v_std", "m/s", {0.1, 0.05}, kSpread}, each<&R::leads, &L::v_std>},
    {{"leads_a_std", "m/s^2", {0.1, 0.05}, kSpread}, each<&R::leads, &L::a_std>},
    {{"lead_probs", "", {0.02, 0}, kShare}, lead_probs},
    {{"desire_state", "", {0.02, 0}, kShare}, list<&R::desire_state>},
    {{"desire_prediction", "", {0.02, 0}, kShare}, list<&R::desire_prediction>},
    {{"engaged_prob", "", {0.02, 0}, kShare}, number<&R::engaged_prob>},
    {{"brake_disengage_probs", "", {0.02, 0}, kShare}, list<&R::brake_disengage>},
    {{"gas_disengage_probs", "", {0.02, 0}, kShare}, list<&R::gas_disengage>},
    {{"steer_override_probs", "", {0.02, 0}, kShare}, list<&R::steer_override>},
    {{"hard_brake_3_probs", "", {0.02, 0}, kShare}, list<&R::hard_brake_3>},
    {{"hard_brake_4_probs", "", {0.02, 0}, kShare}, list<&R::hard_brake_4>},
    {{"hard_brake_5_probs", "", {0.02, 0}, kShare}, list<&R::hard_brake_5>},
    {{"hard_brake_predicted", "", {0, 0}, kYesNo}, number<&R::hard_brake_predicted>},
};

// Both sides' values, concatenated.
template <auto List>
void sides(const DriverRecord& r, FieldValues& out) {
  for (const DriverSideRecord* side : {&r.left, &r.right}) out.add(side->*List);
}

template <auto Member>
void side_numbers(const DriverRecord& r, FieldValues& out) {
  for (const DriverSideRecord* side : {&r.left, &r.right}) out.add(side->*Member);
}

void wheel(const DriverRecord& r, FieldValues& out) { out.add(r.wheel_on_right); }

using D = DriverSideRecord;
constexpr const char* kFace = "a degree, a hundredth of the picture: a tenth of the network's own deviation";

constexpr DriverField kDriverFields[] = {
    {{"driver_face_orientation", "rad", {0.02, 0.01}, kFace}, sides<&D::orientation>},
    {{"driver_face_orientation_std", "rad", {0.02, 0.05}, kSpread}, sides<&D::orientation_std>},
    {{"driver_face_position", "", {0.01, 0.01}, kFace}, sides<&D::position>},
    {{"driver_face_position_std", "", {0.01, 0.05}, kSpread}, sides<&D::position_std>},
    {{"driver_face_prob", "", {0.02, 0}, kShare}, side_numbers<&D::face>},
    {{"driver_left_eye_prob", "", {0.02, 0}, kShare}, side_numbers<&D::left_eye>},
    {{"driver_right_eye_prob", "", {0.02, 0}, kShare}, side_numbers<&D::right_eye>},
    {{"driver_left_blink_prob", "", {0.02, 0}, kShare}, side_numbers<&D::left_blink>},
    {{"driver_right_blink_prob", "", {0.02, 0}, kShare}, side_numbers<&D::right_blink>},
    {{"driver_sunglasses_prob", "", {0.02, 0}, kShare}, side_numbers<&D::sunglasses>},
    {{"driver_phone_prob", "", {0.02, 0}, kShare}, side_numbers<&D::phone>},
    {{"driver_wheel_on_right_prob", "", {0.02, 0}, kShare}, wheel},
};

}  // namespace

std::span<const ModelField> model_fields() { return kFields; }
std::span<const DriverField> driver_fields() { return kDriverFields; }

std::span<const FieldInfo> all_fields() {
  static const std::vector<FieldInfo> all = [] {
    std::vector<FieldInfo> out;
    for (const ModelField& field : kFields) out.push_back(field.info);
    for (const DriverField& field : kDriverFields) out.push_back(field.info);
    return out;
  }();
  return all;
}

}  // namespace sparkpilot::drive

#include "sim/car_file.h"

#include <gtest/gtest.h>

#include "base/test_error.h"
#include "base/test_files.h"

namespace sparkpilot::sim {
namespace {

TEST(CarFile, GivesBackWhatWasWritten) {
  Car car{"mine", preset_vehicle("suv")};
  car.vehicle.steer_ratio = 14.123456789012345;
  car.steering.delay = 0.17;
  car.steering.friction = 0.11;
  car.powertrain = {0.15, 0.35, 0.5};
  const Car again = parse_car(car_text(car, {{"steer_ratio", "fit"}}), "folder/mine.json");
  EXPECT_EQ(again.vehicle.steer_ratio, car.vehicle.steer_ratio);
  EXPECT_EQ(again.vehicle.mass, car.vehicle.mass);
  EXPECT_EQ(again.vehicle.stiffness_rear, car.vehicle.stiffness_rear);
  EXPECT_EQ(again.steering.delay, 0.17);
  EXPECT_EQ(again.steering.friction, 0.11);
  EXPECT_EQ(again.powertrain.delay, 0.15);
  EXPECT_EQ(again.powertrain.lag, 0.35);
  EXPECT_EQ(again.powertrain.compensated, 0.5);
  EXPECT_EQ(again.name.substr(0, 5), "mine:");
  EXPECT_TRUE(parse_car(car_text(car, {}), "h\xfctte.json").name.starts_with("h\uFFFDtte:")) << "as run.json has it";
  car.vehicle.mass += 1;
  EXPECT_NE(parse_car(car_text(car, {}), "mine.json").name, again.name) << "another car, another name";
}

TEST(CarFile, TakesTheRestFromAPreset) {
  const Car car = parse_car(R"({"format": "sparkpilot car 1", "base": "truck", "steer_ratio": 20})", "t.json");
  EXPECT_EQ(car.vehicle.steer_ratio, 20);
  EXPECT_EQ(car.vehicle.mass, preset_vehicle("truck").mass);
  EXPECT_EQ(car.steering.delay, Steering{}.delay);
}

TEST(CarFile, RefusesWhatIsNoCar) {
  const auto error = [](const std::string& rest) {
    return error_of([&] { parse_car(R"({"format": "sparkpilot car 1")" + rest, "f.json"); });
  };
  EXPECT_EQ(error(", \"steer_raito\": 14}"),
            "f.json: \"steer_raito\" is not a number of a car (did you mean steer_ratio?)");
  EXPECT_EQ(error(", \"mass\": 5}"), "f.json: \"mass\" is not a number of a car (did you mean mass_kg?)");
  EXPECT_EQ(error(", \"mass_kg\": \"1500\"}"), "f.json: \"mass_kg\": expected a number");
  EXPECT_NE(error(", \"mass_kg\": 1.5}").find("f.json: vehicle: mass [kg] is 1.5, expected 100 to 60000"),
            std::string::npos);
  EXPECT_NE(error(", \"steering_delay_s\": 170}").find("steering.delay [s] is 170"), std::string::npos);
  EXPECT_NE(error(", \"drive_compensated\": 1.5}").find("powertrain.compensated is 1.5"), std::string::npos);
  EXPECT_NE(error(", \"base\": \"lorry\"}").find("f.json: \"base\": vehicle: no preset \"lorry\""), std::string::npos);
  EXPECT_EQ(error(", \"mass_kg\": 1500, \"mass_kg\": 1600}"), "f.json: \"mass_kg\" is there twice");
  EXPECT_EQ(error(", \"sources\": 1}"), "f.json: \"sources\": expected an object of texts");
  EXPECT_NE(error("").find("is not JSON"), std::string::npos);
  EXPECT_NE(error_of([] { parse_car("{}", "f.json"); }).find("expected \"format\""), std::string::npos);
  EXPECT_NE(error_of([] { parse_car("[]", "f.json"); }).find("expected a JSON object"), std::string::npos);
  EXPECT_NE(error_of([] { find_car("civik"); }).find("no preset"), std::string::npos);
  EXPECT_NE(error_of([] { find_car("./none.json"); }).find("none.json"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot::sim

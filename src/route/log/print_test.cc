#include "route/log/print.h"

#include <capnp/any.h>
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/test_assets.h"
#include "route/log/reader.h"
#include "route/log/test_log.h"

namespace sparkpilot::drive {
namespace print_test {

using nlohmann::json;

// What is printed for one event.
std::string printed(const std::string& kind, const PrintOptions& options,
                    const std::function<void(cereal::Event::Builder)>& fill) {
  capnp::MallocMessageBuilder message;
  cereal::Event::Builder event = message.initRoot<cereal::Event>();
  event.setLogMonoTime(18446744073709551615U);
  event.setValid(false);
  fill(event);
  const EventPrinter printer(kind, options);
  std::string out = printer.heading();
  EXPECT_TRUE(printer.takes(event.asReader()));
  EXPECT_TRUE(printer.print(event.asReader(), out));
  EXPECT_EQ(out.back(), '\n');
  return out;
}

void fill_car(cereal::Event::Builder event) {
  auto car = event.initCarState();
  car.setVEgo(0.1F);
  car.setAEgo(std::numeric_limits<float>::quiet_NaN());
  car.initCruiseState().setSpeed(-2);
  car.setGearShifter(cereal::CarState::GearShifter::DRIVE);
  car.initCanMonoTimesDEPRECATED(2).set(1, 7);
}

TEST(EventPrinter, JsonOfAStruct) {
  const std::string text = printed("carState", {}, fill_car);
  EXPECT_EQ(text.rfind("{\"mono_time_ns\":18446744073709551615,\"valid\":false,\"carState\":{", 0), 0u) << text;
  EXPECT_NE(text.find("\"vEgo\":0.1,"), std::string::npos);  // a float's shortest digits, not a double's
  const json car = json::parse(text)["carState"];
  EXPECT_TRUE(car["aEgo"].is_null());
  EXPECT_EQ(car["cruiseState"]["speed"], -2);
  EXPECT_EQ(car["gearShifter"], "drive");
  EXPECT_EQ(car["canMonoTimesDEPRECATED"], json::parse("[0, 7]"));
  EXPECT_EQ(car["canValid"], false);
  EXPECT_EQ(car["eventsDEPRECATED"], json::array());
}

TEST(EventPrinter, JsonOfChosenFields) {
  const PrintOptions options{{"vEgo", "cruiseState.speed", "canMonoTimesDEPRECATED[1]", "canMonoTimesDEPRECATED[2]"}};
  EXPECT_EQ(
      printed("carState", options, fill_car),
      "{\"mono_time_ns\":18446744073709551615,\"valid\":false,\"carState\":{\"vEgo\":0.1,\"cruiseState.speed\":-2,"
      "\"canMonoTimesDEPRECATED[1]\":7,\"canMonoTimesDEPRECATED[2]\":null}}\n");
}

TEST(EventPrinter, ListsTextAndDataAtTheTop) {
  const auto can = [](cereal::Event::Builder event) {
    auto frames = event.initCan(2);
    frames[1].setAddress(228);
    frames[1].setDat(capnp::Data::Reader(reinterpret_cast<const capnp::byte*>("\x01\x02\x03"), 3));
  };
  EXPECT_EQ(json::parse(printed("can", {}, can))["can"],
            json::parse(R"([{"address": 0, "busTime": 0, "dat": "", "src": 0},
                            {"address": 228, "busTime": 0, "dat": "AQID", "src": 0}])"));
  EXPECT_EQ(json::parse(printed("can", {{"[1].dat", "[2].dat"}}, can))["can"],
            json::parse(R"({"[1].dat": "AQID", "[2].dat": null})"));
  const auto message = [](cereal::Event::Builder event) { event.setLogMessage("a \"b\",\n\xff"); };
  EXPECT_EQ(json::parse(printed("logMessage", {}, message))["logMessage"], "a \"b\",\n\xef\xbf\xbd");
  EXPECT_EQ(printed("logMessage", {{}, true}, message),
            "mono_time_ns,valid,logMessage\n18446744073709551615,false,\"a \"\"b\"\",\n\xef\xbf\xbd\"\n");
}

TEST(EventPrinter, LongDataIsItsLength) {
  const auto picture = [](cereal::Event::Builder event) { event.initThumbnail().initThumbnail(300); };
  EXPECT_EQ(json::parse(printed("thumbnail", {}, picture))["thumbnail"]["thumbnail"], json::parse(R"({"bytes": 300})"));
  const json whole = json::parse(printed("thumbnail", {{}, false, true}, picture))["thumbnail"]["thumbnail"];
  EXPECT_EQ(whole.get<std::string>().size(), 400u);
}

TEST(EventPrinter, CsvHasAColumnForEachLeaf) {
  const std::string text = printed("radarState", {{}, true}, [](cereal::Event::Builder event) {
    event.initRadarState().initLeadOne().setDRel(12.5F);
    event.getRadarState().initWarpMatrixDEPRECATED(2).set(0, 1);
  });
  const std::string heading = text.substr(0, text.find('\n')), line = text.substr(heading.size() + 1);
  EXPECT_EQ(heading.rfind("mono_time_ns,valid,warpMatrixDEPRECATED,", 0), 0u) << heading;
  EXPECT_NE(heading.find(",leadOne.dRel,"), std::string::npos);
  EXPECT_EQ(line.rfind("18446744073709551615,false,\"[1,0]\",", 0), 0u) << line;
  const std::string cells = line.substr(line.find("]\"") + 2);  // no further comma inside a cell
  EXPECT_EQ(std::count(heading.begin(), heading.end(), ','), std::count(cells.begin(), cells.end(), ',') + 2);
}

TEST(EventPrinter, CsvChosenAndNamesThatAreTaken) {
  EXPECT_EQ(printed("liveParameters", {{"valid", "roll"}, true},
                    [](cereal::Event::Builder event) {
                      event.initLiveParameters().setRoll(std::numeric_limits<float>::infinity());
                    }),
            "mono_time_ns,valid,liveParameters.valid,roll\n18446744073709551615,false,false,\n");
}

TEST(EventPrinter, OfAUnionOnlyTheMemberThatIsSet) {
  const auto fill = [](cereal::Event::Builder event) {
    event.initControlsState().getLateralControlState().initTorqueState().setError(2);
  };
  EXPECT_EQ(json::parse(printed("controlsState", {}, fill))["controlsState"]["lateralControlState"].size(), 1u);
  EXPECT_EQ(json::parse(printed("controlsState",
                                {{"lateralControlState.torqueState.error", "lateralControlState.pidState.p"}},
                                fill))["controlsState"],
            json::parse(R"({"lateralControlState.torqueState.error": 2, "lateralControlState.pidState.p": null})"));
}

// openpilot's own numbers, from the schemas of 2019 to 2025 and from the later ones.
TEST(EventPrinter, OnroadEventsOfEveryEra) {
  using Old = cereal::CarEvent::EventName;
  using New = cereal::OnroadEvent::EventName;
  const auto old = [](cereal::Event::Builder event) {
    auto events = event.initOnroadEventsDEPRECATED(3);
    events[0].setName(static_cast<Old>(13));
    events[0].setUserDisable(true);
    events[1].setName(static_cast<Old>(108));
    events[1].setOverrideLongitudinal(true);
    events[2].setName(static_cast<Old>(125));
  };
  const auto now = [](cereal::Event::Builder event) {
    auto events = event.initOnroadEvents(3);
    events[0].setName(static_cast<New>(11));
    events[0].setUserDisable(true);
    events[1].setName(static_cast<New>(13));
    events[1].setOverrideLongitudinal(true);
    events[2].setName(static_cast<New>(63));
  };
  for (const std::string kind : {"carEvents", "onroadEvents"}) {
    const std::string text = printed(kind, {}, old);
    EXPECT_EQ(text, printed(kind, {}, now));
    const json events = json::parse(text)[kind];
    ASSERT_EQ(events.size(), 3u);
    EXPECT_EQ(events[0]["name"], "pedalPressed");
    EXPECT_EQ(events[0]["userDisable"], true);
    EXPECT_EQ(events[0]["overrideLongitudinal"], false);
    EXPECT_EQ(events[1]["name"], "gasPressedOverride");
    EXPECT_EQ(events[1]["overrideLongitudinal"], true);
    EXPECT_EQ(events[1]["overrideLateral"], false);
    EXPECT_EQ(events[2]["name"], "startupNoSecOcKey");
    const PrintOptions chosen{{"[0].name", "[2].name", "[3].name"}, true};
    EXPECT_EQ(printed(kind, chosen, old), printed(kind, chosen, now));
    EXPECT_EQ(printed(kind, chosen, now),
              "mono_time_ns,valid,[0].name,[2].name,[3].name\n18446744073709551615,false,pedalPressed,"
              "startupNoSecOcKey,\n");
  }
  EXPECT_NE(printed("onroadEventsDEPRECATED", {}, old).find("\"onroadEventsDEPRECATED\":[{"), std::string::npos);
  EXPECT_TRUE(is_kind("carEvents"));
  EXPECT_EQ(kinds_named("carEvents"), kinds_named("onroadEvents"));
  EXPECT_EQ(kinds_named("carEvents").size(), 2u);
  EXPECT_EQ(kinds_named("carState"), std::vector<size_t>{cereal::Event::CAR_STATE});
  EXPECT_FALSE(is_kind("onroadEvent"));
}

TEST(EventPrinter, NumbersOfOnroadEventsAreOpenpilots) {
  using Old = cereal::CarEvent::EventName;
  using New = cereal::OnroadEvent::EventName;
  const std::pair<Old, int> old[] = {{Old::CAN_ERROR, 0},
                                     {Old::STEER_TEMP_UNAVAILABLE, 9},
                                     {Old::BUTTON_CANCEL, 11},
                                     {Old::CRUISE_DISABLED, 14},
                                     {Old::CONTROLS_MISMATCH, 22},
                                     {Old::PCM_DISABLE, 24},
                                     {Old::DRIVER_DISTRACTED, 39},
                                     {Old::DRIVER_UNRESPONSIVE, 45},
                                     {Old::ACC_FAULTED, 51},
                                     {Old::COMM_ISSUE, 53},
                                     {Old::LANE_CHANGE, 59},
                                     {Old::PRE_ENABLE_STANDSTILL, 73},
                                     {Old::STEER_SATURATED, 80},
                                     {Old::WRONG_CRUISE_MODE, 87},
                                     {Old::PROCESS_NOT_RUNNING, 95},
                                     {Old::LOCATIOND_TEMPORARY_ERROR, 103},
                                     {Old::STEER_OVERRIDE, 114},
                                     {Old::STARTUP_NO_SEC_OC_KEY, 125}};
  for (const auto& [name, number] : old) EXPECT_EQ(static_cast<int>(name), number);
  const std::pair<New, int> now[] = {{New::CAN_ERROR, 0},
                                     {New::STEER_TEMP_UNAVAILABLE, 7},
                                     {New::BUTTON_CANCEL, 9},
                                     {New::CRUISE_DISABLED, 15},
                                     {New::CONTROLS_MISMATCH, 22},
                                     {New::PCM_DISABLE, 24},
                                     {New::DRIVER_DISTRACTED, 35},
                                     {New::DRIVER_UNRESPONSIVE, 38},
                                     {New::ACC_FAULTED, 41},
                                     {New::COMM_ISSUE, 43},
                                     {New::LANE_CHANGE, 50},
                                     {New::STEER_SATURATED, 66},
                                     {New::PROCESS_NOT_RUNNING, 75},
                                     {New::AEB, 92},
                                     {New::STEER_DISENGAGE, 94},
                                     {New::AUDIO_FEEDBACK, 97}};
  for (const auto& [name, number] : now) EXPECT_EQ(static_cast<int>(name), number);
}

TEST(EventPrinter, AlertsOfEveryEra) {
  const PrintOptions fields{{"enabled", "state", "alertText1", "alertText2", "alertType", "alertStatus", "alertSound"}};
  const auto fill = [](auto state) {
    state.setEnabled(true);
    state.setState(cereal::SelfdriveState::OpenpilotState::SOFT_DISABLING);
    state.setAlertText1("TAKE CONTROL IMMEDIATELY");
    state.setAlertText2("Driver Distracted");
    state.setAlertType("driverDistracted/warning");
    state.setAlertStatus(cereal::SelfdriveState::AlertStatus::CRITICAL);
    state.setAlertSound(cereal::CarControl::HUDControl::AudibleAlert::WARNING_IMMEDIATE);
  };
  const json expected = json::parse(R"({"enabled": true, "state": "softDisabling", "alertText1":
    "TAKE CONTROL IMMEDIATELY", "alertText2": "Driver Distracted", "alertType": "driverDistracted/warning",
    "alertStatus": "critical", "alertSound": "warningImmediate"})");
  const auto controls = [&](cereal::Event::Builder event) { fill(event.initControlsState()); };
  const auto selfdrive = [&](cereal::Event::Builder event) { fill(event.initSelfdriveState()); };
  EXPECT_EQ(json::parse(printed("controlsState", fields, controls))["controlsState"], expected);
  EXPECT_EQ(json::parse(printed("selfdriveState", fields, selfdrive))["selfdriveState"], expected);
}

// As openpilot's own writer lays out a list of events: the name, then the flags as bits, 16 bits each.
TEST(EventPrinter, OnroadEventsLieWhereOpenpilotPutsThem) {
  capnp::MallocMessageBuilder message;
  auto events = message.initRoot<cereal::Event>().initOnroadEvents(1);
  events[0].setName(static_cast<cereal::OnroadEvent::EventName>(94));
  events[0].setUserDisable(true);
  events[0].setOverrideLateral(true);
  const capnp::AnyStruct::Reader any = events[0].asReader();
  ASSERT_EQ(any.getDataSection().size(), 8u);
  EXPECT_EQ(any.getPointerSection().size(), 0u);
  EXPECT_EQ(any.getDataSection()[0], 94);
  EXPECT_EQ(any.getDataSection()[1], 0);
  EXPECT_EQ(any.getDataSection()[2], 1 << 3);  // field 1 is bit 0
  EXPECT_EQ(any.getDataSection()[3], 1 << 1);
}

TEST(EventPrinter, EnumsOfLaterSchemasAreNumbers) {
  const std::string text = printed("carState", {{"gearShifter"}}, [](cereal::Event::Builder event) {
    event.initCarState().setGearShifter(static_cast<cereal::CarState::GearShifter>(99));
  });
  EXPECT_EQ(json::parse(text)["carState"]["gearShifter"], 99);
}

std::string refusal(const std::string& kind, const std::string& field) {
  try {
    EventPrinter(kind, {{field}});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.what();
  }
  return "";
}

TEST(EventPrinter, WhatCannotBePrintedIsRefused) {
  EXPECT_EQ(refusal("carStat", "x"), "no event is of the kind \"carStat\"");
  EXPECT_NE(refusal("testJoystick", "x").find("testJoystick: the contents of this kind of event have no schema"),
            std::string::npos);
  EXPECT_NE(refusal("carState", "vEgoo").find("carState has no field \"vEgoo\" (did you mean vEgo?); there are "),
            std::string::npos);
  EXPECT_NE(refusal("carState", "cruiseState.spede")
                .find("carState.cruiseState has no field \"spede\" (did you mean "
                      "speed?); there are enabled, speed"),
            std::string::npos)
      << refusal("carState", "cruiseState.spede");
  for (const char* path : {"cruiseState..speed", ".cruiseState", "cruiseState."}) {
    EXPECT_NE(refusal("carState", path).find("expected the name of a field behind each dot"), std::string::npos)
        << path;
  }
  EXPECT_NE(refusal("can", "[0].adress").find("can[0] has no field \"adress\" (did you mean address?)"),
            std::string::npos)
      << refusal("can", "[0].adress");
  EXPECT_NE(refusal("carState", "cruiseState.x").find("there are enabled, speed, available"), std::string::npos);
  EXPECT_NE(refusal("carParams", "carFw").find("has no schema here"), std::string::npos);
  for (const char* field :
       {"", ".", ".vEgo", "vEgo.", "vEgo[0]", "cruiseState[0]", "[0]", "canMonoTimesDEPRECATED[",
        "canMonoTimesDEPRECATED[x]", "canMonoTimesDEPRECATED[-1]", "canMonoTimesDEPRECATED[99999999999]", "vEgo.x"}) {
    EXPECT_NE(refusal("carState", field), "") << field;
  }
}

TEST(EventPrinter, DamageInsideAnEventLeavesNoHalfLine) {
  capnp::MallocMessageBuilder message;
  fill_car(message.initRoot<cereal::Event>());
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  std::string bytes(reinterpret_cast<const char*>(words.begin()), words.asBytes().size());
  const EventPrinter printer("carState", {});
  int damaged = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string bad = bytes;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    try {
      LogReader reader(memory_source(std::as_bytes(std::span(bad))), "bad");
      while (reader.next()) {
        std::string out = "before";
        if (!printer.takes(reader.event())) continue;
        const bool whole = printer.print(reader.event(), out);
        EXPECT_EQ(out == "before", !whole);
        damaged += !whole;
      }
    } catch (const Error&) {
    }
  }
  EXPECT_GT(damaged, 10);
}

TEST(EventPrinter, EventsOfTheDemoRoute) {
  const auto log = assets_folder() / "route_demo/qlog.bz2";
  if (!std::filesystem::exists(log)) GTEST_SKIP() << "there is no " << log.string();
  const EventPrinter printer("onroadEvents", {});
  std::map<std::string, int> names;
  int lists = 0;
  LogReader reader(log);
  while (reader.next()) {
    if (!printer.takes(reader.event())) continue;
    std::string out;
    ASSERT_TRUE(printer.print(reader.event(), out));
    ++lists;
    const json printed = json::parse(out);
    for (const json& event : printed.at("onroadEvents")) ++names[event.at("name").get<std::string>()];
  }
  EXPECT_GT(lists, 0);
  for (const auto& [name, count] : names) std::printf("%s %d\n", name.c_str(), count);
}

TEST(EventPrinter, EveryKindOfTheDemoRoute) {
  const auto log = assets_folder() / "route_demo/qlog.bz2";
  if (!std::filesystem::exists(log)) GTEST_SKIP() << "there is no " << log.string();
  std::map<std::string, std::pair<std::unique_ptr<EventPrinter>, std::unique_ptr<EventPrinter>>> printers;
  for (const std::string& kind : printable_kinds()) {
    printers[kind] = {std::make_unique<EventPrinter>(kind, PrintOptions{}),
                      std::make_unique<EventPrinter>(kind, PrintOptions{{}, true})};
  }
  LogReader reader(log);
  std::string out;
  while (reader.next()) {
    const auto found = printers.find(event_kind(reader.event()));
    if (found == printers.end()) continue;
    out.clear();
    ASSERT_TRUE(found->second.first->print(reader.event(), out)) << found->first;
    ASSERT_FALSE(json::parse(out, nullptr, false).is_discarded()) << out;
    ASSERT_TRUE(found->second.second->print(reader.event(), out)) << found->first;
  }
}

}  // namespace print_test
}  // namespace sparkpilot::drive

#include "config/settings.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>

#include "base/error.h"

namespace sparkpilot {
namespace {

using Pairs = std::map<std::string, std::string, std::less<>>;

SettingValue value_of(std::string_view setting, const SettingsInput& input) { return resolve_settings(input)[setting]; }

TEST(Settings, DefaultsHoldWhereNobodySpeaks) {
  const Settings settings = resolve_settings({});
  ASSERT_EQ(settings.values.size(), all_settings().size());
  for (const SettingValue& value : settings.values) {
    EXPECT_EQ(value.value, value.setting->default_value);
    EXPECT_EQ(value.origin, Origin::none);
    EXPECT_EQ(value.from, "default");
  }
  EXPECT_TRUE(settings.warnings.empty());
}

TEST(Settings, TableIsConsistent) {
  std::set<std::string_view> names;
  for (const Setting& setting : all_settings()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    EXPECT_TRUE(setting.default_value.empty() || accepts(setting, setting.default_value)) << setting.name;
    EXPECT_FALSE(accepts(setting, "")) << setting.name;
    EXPECT_TRUE(setting.flag.empty() || setting.flag == "--" + std::string(setting.name)) << setting.name;
    std::string own = "SPARKPILOT_" + std::string(setting.name);
    for (char& c : own) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    ASSERT_FALSE(setting.variables.empty()) << setting.name;
    EXPECT_EQ(setting.variables[0].name, own);
    for (const SettingVariable& variable : setting.variables) {
      EXPECT_EQ(variable.meaning == nullptr, variable.values.empty()) << variable.name;
      EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    }
  }
}

struct Case {
  const char* setting;
  Pairs environment;
  std::string value, from;
  std::vector<std::string> overruled;
};

TEST(Settings, VariablesInTheirOrder) {
  const Case cases[] = {
      {"device", {{"CUDA", "1"}}, "cuda", "CUDA=1", {}},
      {"device", {{"CUDA", "0"}}, "cpu", "CUDA=0", {}},
      {"device", {{"OPENPILOT_DGX_ENABLED", "1"}}, "cuda", "OPENPILOT_DGX_ENABLED=1", {}},
      {"device", {{"OPENPILOT_DGX_ENABLED", "0"}}, "cpu", "OPENPILOT_DGX_ENABLED=0", {}},
      {"device", {{"OPENPILOT_DGX_ENABLED", "0"}, {"CUDA", "1"}}, "cpu", "OPENPILOT_DGX_ENABLED=0", {"CUDA=1"}},
      {"device", {{"OPENPILOT_DISABLE_DGX", "1"}, {"CUDA", "1"}}, "cpu", "OPENPILOT_DISABLE_DGX=1", {"CUDA=1"}},
      {"device",
       {{"OPENPILOT_DISABLE_DGX", "1"}, {"OPENPILOT_DGX_ENABLED", "1"}, {"CUDA", "0"}},
       "cpu",
       "OPENPILOT_DISABLE_DGX=1",
       {"OPENPILOT_DGX_ENABLED=1"}},  // CUDA=0 has the same meaning
      {"device", {{"OPENPILOT_DISABLE_DGX", "0"}}, "auto", "default", {}},
      {"device", {{"OPENPILOT_DISABLE_DGX", "0"}, {"CUDA", "1"}}, "cuda", "CUDA=1", {}},
      {"device",
       {{"SPARKPILOT_DEVICE", "cuda:1"}, {"OPENPILOT_DISABLE_DGX", "1"}},
       "cuda:1",
       "SPARKPILOT_DEVICE=cuda:1",
       {"OPENPILOT_DISABLE_DGX=1"}},
      // What `env --export` writes does not undo the switches.
      {"device", {{"SPARKPILOT_DEVICE", "auto"}, {"CUDA", "1"}}, "auto", "SPARKPILOT_DEVICE=auto", {"CUDA=1"}},
      {"device",
       {{"SPARKPILOT_DEVICE", "auto"}, {"CUDA", "1"}, {"OPENPILOT_DISABLE_DGX", "1"}},
       "cpu",
       "OPENPILOT_DISABLE_DGX=1",
       {"SPARKPILOT_DEVICE=auto", "CUDA=1"}},
      {"device",
       {{"SPARKPILOT_DEVICE", "auto"}, {"OPENPILOT_DGX_ENABLED", "0"}},
       "cpu",
       "OPENPILOT_DGX_ENABLED=0",
       {"SPARKPILOT_DEVICE=auto"}},
      {"device", {{"CUDA", ""}, {"OPENPILOT_DGX_ENABLED", ""}}, "auto", "default", {}},  // as if unset
      {"precision", {{"OPENPILOT_DGX_PRECISION", "bf16"}}, "bf16", "OPENPILOT_DGX_PRECISION=bf16", {}},
      {"precision",
       {{"SPARKPILOT_PRECISION", "fp16"}, {"OPENPILOT_DGX_PRECISION", "fp4"}},
       "fp16",
       "SPARKPILOT_PRECISION=fp16",
       {"OPENPILOT_DGX_PRECISION=fp4"}},
      {"threads", {{"SPARKPILOT_THREADS", "3"}}, "3", "SPARKPILOT_THREADS=3", {}},
      {"data", {{"LOG_ROOT", "/a b"}}, "/a b", "LOG_ROOT=/a b", {}},
      {"data", {{"LOG_ROOT", "/a"}, {"SPARKPILOT_DATA", "/b"}}, "/b", "SPARKPILOT_DATA=/b", {"LOG_ROOT=/a"}},
      {"verbose", {{"DEBUG", "2"}}, "2", "DEBUG=2", {}},
      {"color", {{"NO_COLOR", "\x1b[1m"}}, "never", "NO_COLOR=\\x1b[1m", {}},
  };
  for (const Case& c : cases) {
    const Settings settings = resolve_settings({.environment = c.environment});
    const SettingValue& value = settings[c.setting];
    EXPECT_EQ(value.value, c.value) << c.from;
    EXPECT_EQ(value.from, c.from);
    EXPECT_EQ(value.overruled, c.overruled) << c.from;
    EXPECT_TRUE(settings.warnings.empty()) << settings.warnings[0];
  }
}

TEST(Settings, FlagOverEnvironmentOverFileOverDefault) {
  SettingsInput input{.file = "/c.toml", .lines = {{"precision", "fp32", 3}}};
  EXPECT_EQ(value_of("precision", input).from, "/c.toml line 3");
  EXPECT_EQ(value_of("precision", input).origin, Origin::file);
  input.environment["OPENPILOT_DGX_PRECISION"] = "bf16";
  EXPECT_EQ(value_of("precision", input).value, "bf16");
  EXPECT_EQ(value_of("precision", input).overruled, std::vector<std::string>{"/c.toml line 3"});
  input.flags["precision"] = "fp16";
  const SettingValue value = value_of("precision", input);
  EXPECT_EQ(value.value, "fp16");
  EXPECT_EQ(value.origin, Origin::flag);
  EXPECT_EQ(value.from, "--precision fp16");
  EXPECT_EQ(value.overruled, (std::vector<std::string>{"OPENPILOT_DGX_PRECISION=bf16", "/c.toml line 3"}));
}

TEST(Settings, WrongValuesAreOneWarningAndTheNextIsTaken) {
  SettingsInput input{.environment = {{"OPENPILOT_DGX_PRECISION", "fp3"}}};
  Settings settings = resolve_settings(input);
  ASSERT_EQ(settings.warnings.size(), 1u);
  EXPECT_EQ(settings.warnings[0],
            "OPENPILOT_DGX_PRECISION: expected auto, model, fp32, fp16, bf16, fp8 or fp4, got \"fp3\" (did you mean "
            "fp32?); precision is "
            "auto (default)");
  input.file = "/c.toml";
  input.lines = {{"precision", "bf16", 1}, {"threads", std::nullopt, 2}};
  settings = resolve_settings(input);
  ASSERT_EQ(settings.warnings.size(), 2u);
  EXPECT_TRUE(settings.warnings[0].ends_with("got \"fp3\" (did you mean fp32?); precision is bf16 (/c.toml line 1)"));
  EXPECT_EQ(settings.warnings[1],
            "/c.toml line 2: threads: expected auto or a whole number, got neither text nor a whole number; threads is "
            "auto (default)");
  // Even if a value of higher precedence was right.
  settings = resolve_settings({.flags = {{"device", "cpu"}}, .environment = {{"CUDA", "yes"}}});
  ASSERT_EQ(settings.warnings.size(), 1u);
  EXPECT_EQ(settings.warnings[0], "CUDA: expected 1 (cuda) or 0 (cpu), got \"yes\"; device is cpu (--device cpu)");
  for (const auto& [variable, wrong] :
       std::vector<std::pair<std::string, std::string>>{{"OPENPILOT_DGX_ENABLED", "2"},
                                                        {"OPENPILOT_DISABLE_DGX", "true"},
                                                        {"CUDA", "01"},
                                                        {"DEBUG", "*"},
                                                        {"DEBUG", "-1"},
                                                        {"DEBUG", "10"},
                                                        {"SPARKPILOT_DEVICE", "gpu"},
                                                        {"SPARKPILOT_DEVICE", "cuda:"},
                                                        {"SPARKPILOT_DEVICE", "cuda:-1"},
                                                        {"SPARKPILOT_DEVICE", "CPU"},
                                                        {"SPARKPILOT_DEVICE", "cuda:1000"},
                                                        {"SPARKPILOT_THREADS", "1e3"},
                                                        {"SPARKPILOT_THREADS", " 1"},
                                                        {"SPARKPILOT_COLOR", "yes"}}) {
    const Settings resolved = resolve_settings({.environment = {{variable, wrong}}});
    ASSERT_EQ(resolved.warnings.size(), 1u) << variable << "=" << wrong;
    EXPECT_NE(resolved.warnings[0].find(variable + ": expected "), std::string::npos);
    EXPECT_NE(resolved.warnings[0].find("got \"" + wrong + "\""), std::string::npos);
    EXPECT_TRUE(resolved.warnings[0].ends_with("(default)"));
    for (const SettingValue& value : resolved.values) EXPECT_EQ(value.origin, Origin::none);
  }
}

TEST(Settings, AWrongFlagIsAnError) {
  try {
    resolve_settings({.flags = {{"precision", "fp3"}}, .environment = {{"OPENPILOT_DGX_PRECISION", "bf16"}}});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    EXPECT_STREQ(error.what(),
                 "--precision: expected auto, model, fp32, fp16, bf16, fp8 or fp4, got \"fp3\" (did you mean fp32?)");
  }
}

TEST(Settings, WhatCannotBeHadIsRefusedToAFlagAndElsewhereAWarning) {
  int asked = 0;
  SettingsInput input{.environment = {{"SPARKPILOT_PRECISION", "fp8"}, {"OPENPILOT_DGX_PRECISION", "bf16"}}};
  input.refusal = [&](const Setting& setting, const std::string& value, const Settings&) {
    ++asked;
    return setting.name == "precision" && value == "fp8" ? "not there yet" : "";
  };
  const Settings settings = resolve_settings(input);
  EXPECT_EQ(settings["precision"].value, "bf16");
  ASSERT_EQ(settings.warnings.size(), 1u);
  EXPECT_EQ(settings.warnings[0],
            "SPARKPILOT_PRECISION=fp8: not there yet; precision is bf16 (OPENPILOT_DGX_PRECISION=bf16)");
  EXPECT_EQ(asked, 2);
  // Values that do not count are not checked.
  input.flags["precision"] = "fp32";
  EXPECT_TRUE(resolve_settings(input).warnings.empty());
  EXPECT_EQ(asked, 3);
  input.flags["precision"] = "fp8";
  try {
    resolve_settings(input);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--precision fp8: not there yet");
  }
}

TEST(Settings, HomeIsPutInForTheFileOnly) {
  SettingsInput input{.file = "/c.toml", .lines = {{"models", "~/models", 1}, {"data", "~", 2}}, .home = "/u/me"};
  EXPECT_EQ(value_of("models", input).value, "/u/me/models");
  EXPECT_EQ(value_of("data", input).value, "~");
  input.environment["SPARKPILOT_MODELS"] = "~/models";  // a shell would have expanded it
  EXPECT_EQ(value_of("models", input).value, "~/models");
}

TEST(Settings, HostileBytesStayInOneShortPrintableLine) {
  const std::string hostile[] = {std::string(1 << 20, 'x'),   std::string("\x1b]0;title\x07\r\n\t"),
                                 std::string("\xff\xfe\xc3"), std::string(100, '\x80'),
                                 std::string("a\0b", 3),      std::string(79, 'x') + "\u00fc\u00fc"};
  for (const std::string& value : hostile) {
    SettingsInput input{.file = value, .lines = {{"device", value, 1}, {"models", value, 2}}};
    for (const Setting& setting : all_settings()) {
      for (const SettingVariable& variable : setting.variables) input.environment[std::string(variable.name)] = value;
    }
    const Settings settings = resolve_settings(input);
    EXPECT_GE(settings.warnings.size(), 8u);
    const auto check = [](const std::string& line) {
      EXPECT_EQ(one_line(line), line);
      EXPECT_LT(line.size(), 1000u);
    };
    for (const std::string& warning : settings.warnings) check(warning);
    for (const SettingValue& each : settings.values) {
      check(each.from);
      for (const std::string& other : each.overruled) check(other);
    }
  }
  EXPECT_EQ(shown("plain"), "plain");
  EXPECT_EQ(shown(std::string(79, 'x') + "\u00fcy"), std::string(79, 'x') + " ...");
}

}  // namespace
}  // namespace sparkpilot

// What every page carries. Included by page.cc alone.
#pragma once

#include <string_view>

namespace sparkpilot::drive {

extern const std::string_view kPageStyle;
// Shows the values of a figure's lines under the pointer.
extern const std::string_view kPageScript;
// "sha256-..." of the script: the page lets no other one run. tests/page_test.py holds it to the script.
extern const std::string_view kPageScriptHash;

}  // namespace sparkpilot::drive

// Parts of every page. Included only by page.cc.
#pragma once

#include <string_view>

namespace sparkpilot::drive {

extern const std::string_view kPageStyle;
// Shows the values of a figure's lines under the pointer.
extern const std::string_view kPageScript;
// "sha256-..." of the script: the page allows no other script. tests/page_test.py checks that it matches.
extern const std::string_view kPageScriptHash;

}  // namespace sparkpilot::drive

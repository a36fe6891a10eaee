#include "route/draw/page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/file.h"
#include "route/contract/image.h"
#include "route/draw/markup.h"
#include "route/test_files.h"
#include "route/video/jpeg.h"
#include "sparkpilot/error.h"

namespace sparkpilot::drive {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

YuvImage stripes() {
  YuvImage image(96, 64);
  for (int i = 0; i < 96 * 64; ++i) image.y()[i] = static_cast<uint8_t>(i % 96 * 2);
  for (int i = 0; i < 48 * 32; ++i) image.u()[i] = static_cast<uint8_t>(i % 48 * 5);
  return image;
}

Plot wave() {
  Plot plot{.title = "Plan error at 2 s", .y_label = "m"};
  plot.series = {{.name = "this run"}, {.name = "recorded", .dashed = true}};
  for (int i = 0; i < 1200; ++i) {
    const double t = i / 20.0;
    for (Series& s : plot.series) s.x.push_back(t);
    plot.series[0].y.push_back(i > 400 && i < 480 ? NAN : 0.3 + 0.2 * std::sin(t) + 0.04 * std::sin(37 * t));
    plot.series[1].y.push_back(0.3 + 0.15 * std::sin(t + 0.2));
  }
  plot.x_marks = {{24.5, "lane change"}};
  plot.y_marks = {{0.5, "limit"}};
  return plot;
}

Histogram latency() {
  Histogram histogram{.title = "Time of a frame"};
  for (int i = 0; i < 1200; ++i) histogram.values.push_back(21 + 2 * std::sin(i * 1.7) + (i % 7) * 0.6);
  histogram.values.push_back(180);
  return histogram;
}

Page sample() {
  Page page("Drive of a demo route", "a2a0ccea32023010|2023-07-27--13-01-19, segment 0, 60 s");
  page.figures({{"Plan error at 2 s", "0.31 m", "median of 1,200 frames"},
                {"Lane lines apart", "0.04 m"},
                {"A frame takes", "23.1 ms", "p99 31.0 ms"},
                {"Frames", "1,200"}});
  page.warning("The route's log holds the recorded model at 31 of 1,200 frames.");
  page.section("Against the recorded model");
  page.text("Errors are distances between the two plans at the same time ahead.");
  page.plot(wave(), "Distance between the plans, 2 s ahead. A gap is a frame that was not decoded.");
  page.table({"Output", "Median", "p99", "Unit"},
             {{"plan, 2 s", "0.31", "1.20", "m"}, {"lane lines", "0.04", "0.11", "m"}, {"lead", "-", "3.40", "m"}},
             "Errors by output.", {Tone::plain, Tone::bad});
  page.section("Speed");
  page.histogram(latency(), "From the picture to the outputs.");
  page.note("Measured on one core.");
  page.section("Pictures");
  const std::vector<uint8_t> jpeg = encode_jpeg(stripes().view());
  page.images({{"frame 401", jpeg}, {"frame 801", jpeg}});
  page.footer("Made by sparkpilot.");
  return page;
}

// tests/page_test.py opens this page in a browser if the variable names a file for it.
TEST(Page, IsWholeAndNeedsNothingElse) {
  const std::string html = sample().str();
  if (const char* path = std::getenv("SPARKPILOT_SAMPLE_PAGE")) write_text(path, html);
  EXPECT_EQ(html, sample().str());
  EXPECT_EQ(count(html, "<section"), 3U);
  EXPECT_EQ(count(html, "<section"), count(html, "</section>"));
  EXPECT_EQ(count(html, "<svg "), 2U);
  EXPECT_EQ(count(html, "<div"), count(html, "</div>"));
  EXPECT_EQ(count(html, "data:image/jpeg;base64,/9j/"), 2U);
  std::string outside = html;
  const std::string space = "xmlns=\"http://www.w3.org/2000/svg\"";
  for (size_t at = outside.find(space); at != std::string::npos; at = outside.find(space))
    outside.erase(at, space.size());
  EXPECT_EQ(outside.find("http:"), std::string::npos);
  EXPECT_EQ(outside.find("https:"), std::string::npos);
  for (const std::string attribute : {"src=\"", "href=\""}) {
    for (size_t at = outside.find(attribute); at != std::string::npos; at = outside.find(attribute, at + 1)) {
      const std::string target = outside.substr(at + attribute.size(), 5);
      EXPECT_TRUE(target == "data:" || target[0] == '#') << target;
    }
  }
}

TEST(Page, LinksLeadToFilesBesideIt) {
  Page page("title");
  page.link("the film", {.file = "a film#1.mp4"});
  PagePicture moment{"a moment", {0xff, 0xd8, 0xff, 0xe0, 1}};
  moment.link = {.file = "//evil.example/x\"onclick=.mp4", .seconds = 12.346};
  page.images({moment});
  const std::string html = page.str();
  EXPECT_NE(html.find("<a href=\"./a%20film%231.mp4\">the film</a>"), std::string::npos) << html;
  EXPECT_NE(html.find("<a href=\".///evil.example/x%22onclick%3D.mp4#t=12.35\"><img"), std::string::npos) << html;
}

TEST(Page, TakesTextAsText) {
  const std::string hostile = "</title><script>alert('1')</script>\"&\x01\xff\n<img src=x onerror=alert(1)>";
  Page page(hostile, hostile);
  page.figures({{hostile, hostile, hostile}});
  page.section(hostile);
  page.section(hostile);
  page.section(hostile);
  page.text(hostile);
  page.note(hostile);
  page.warning(hostile);
  page.table({hostile}, {{hostile}}, hostile);
  page.plot({.title = hostile,
             .description = hostile,
             .x_label = hostile,
             .y_label = hostile,
             .series = {{.name = hostile, .x = {0, 1}, .y = {0, 1}}},
             .x_marks = {{0.5, hostile}}},
            hostile);
  page.histogram({.title = hostile, .x_label = hostile, .values = {1, 2, 3}}, hostile);
  const std::vector<uint8_t> png = {0x89, 'P', 'N', 'G', 13, 10};
  page.image(hostile, png);
  page.footer(hostile);
  const std::string html = page.str();
  EXPECT_EQ(count(html, "<script"), 1U);
  EXPECT_EQ(count(html, "<img"), 1U);
  EXPECT_EQ(count(html, "<title>"), count(html, "</title>"));
  EXPECT_EQ(html.find('\x01'), std::string::npos);
  EXPECT_EQ(html.find('\xff'), std::string::npos);
  EXPECT_EQ(html.find("\"&quot;&amp;"), std::string::npos);
}

TEST(Page, SetsNumbersToTheRight) {
  Page page("t");
  page.table({"name", "value", "mixed"}, {{"a",
                                           "\u2212"
                                           "1.5 m",
                                           "1"},
                                          {"b", "2", "x"},
                                          {"c"},
                                          {"d", "< 3", "1", "cut"}});
  const std::string html = page.str();
  EXPECT_EQ(count(html, "<td class=\"number\">"), 4U);
  EXPECT_EQ(html.find("cut"), std::string::npos);
}

TEST(Page, RowsHaveTheirTone) {
  Page page("t");
  page.table({"field", "outcome"}, {{"a", "within"}, {"b", "beyond"}, {"c", "not compared"}, {"d", "within"}}, "",
             {Tone::plain, Tone::bad, Tone::faint});
  const std::string html = page.str();
  EXPECT_NE(html.find("<tr><td>a</td>"), std::string::npos);
  EXPECT_NE(html.find("<tr class=\"bad\"><td>b</td>"), std::string::npos);
  EXPECT_NE(html.find("<tr class=\"faint\"><td>c</td>"), std::string::npos);
  EXPECT_NE(html.find("<tr><td>d</td>"), std::string::npos);
  EXPECT_NE(html.find(".bad td{background:"), std::string::npos) << "the tone has no colour";
}

TEST(Page, RefusesPicturesOfNoKind) {
  Page page("t");
  const std::vector<uint8_t> text = {'G', 'I', 'F', '8', '9'};
  EXPECT_THROW(page.image("caption", text), Error);
  EXPECT_THROW(page.image("caption", {}), Error);
}

TEST(Page, EncodesBytesAsOthersDo) {
  Page page("t");
  const std::vector<uint8_t> bytes = {0xff, 0xd8, 0xff, 0xe0, 1};
  page.image("one", bytes);
  page.image("two", std::span(bytes).first(4));
  EXPECT_NE(page.str().find(";base64,/9j/4AE=\""), std::string::npos);
  EXPECT_NE(page.str().find(";base64,/9j/4A==\""), std::string::npos);
}

TEST(Jpeg, IsAPictureAndTheSameEveryTime) {
  const YuvImage image = stripes();
  const std::vector<uint8_t> jpeg = encode_jpeg(image.view());
  ASSERT_GT(jpeg.size(), 100U);
  EXPECT_EQ(jpeg[0], 0xff);
  EXPECT_EQ(jpeg[1], 0xd8);
  EXPECT_EQ(jpeg[jpeg.size() - 2], 0xff);
  EXPECT_EQ(jpeg.back(), 0xd9);
  EXPECT_EQ(jpeg, encode_jpeg(image.view()));
  EXPECT_LT(encode_jpeg(image.view(), 31).size(), jpeg.size());
  EXPECT_THROW(encode_jpeg(YuvView{}), Error);
}

}  // namespace
}  // namespace sparkpilot::drive

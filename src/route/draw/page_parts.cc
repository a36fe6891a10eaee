#include "route/draw/page_parts.h"

namespace sparkpilot::drive {

const std::string_view kPageStyle = R"css(
:root{--paper:#fdfdfc;--ink:#1f2328;--soft:#5c666f;--rule:#dfe3e6;--tint:#f3f5f6;--link:#0067a3;--warn:#b54708;--warn-tint:#fff5e9}
@media(prefers-color-scheme:dark){:root{--paper:#14181c;--ink:#e6e9ec;--soft:#98a3ad;--rule:#2c333a;--tint:#1c2227;--link:#6cc0f0;--warn:#ffb26b;--warn-tint:#2b2117}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:56rem;padding:2.5rem 1.25rem 4rem;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
h1{font-size:1.75rem;line-height:1.2;letter-spacing:-.01em;margin:0;font-weight:650}
h2{font-size:1.2rem;margin:3rem 0 .75rem;padding-top:1rem;border-top:1px solid var(--rule);font-weight:620}
p{margin:.75rem 0;max-width:44rem}
.subtitle{color:var(--soft);margin:.4rem 0 0}
nav{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin-top:1rem;font-size:.9rem}
a{color:var(--link);text-decoration:none}a:hover,a:focus{text-decoration:underline}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));gap:1px;margin:2rem 0 1rem;background:var(--rule);border:1px solid var(--rule);border-radius:10px;overflow:hidden}
.figures div{background:var(--paper);padding:1rem 1.1rem}
.figures dt{color:var(--soft);font-size:.84rem;line-height:1.3}
.figures dd{margin:.3rem 0 0;font-size:1.75rem;line-height:1.15;font-weight:620;letter-spacing:-.015em}
.figures .small{font-size:.84rem;font-weight:400;letter-spacing:0;color:var(--soft)}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.92rem;margin:1rem 0}
caption,figcaption{color:var(--soft);font-size:.88rem;text-align:left;line-height:1.45}
caption{padding-bottom:.5rem}
th,td{padding:.42rem .9rem .42rem 0;text-align:left;border-bottom:1px solid var(--rule);vertical-align:baseline}
th{color:var(--soft);font-weight:550;font-size:.84rem;border-bottom-color:var(--soft)}
th:last-child,td:last-child{padding-right:0}
.bad td{background:var(--warn-tint)}.bad td:last-child{color:var(--warn);font-weight:620}.bad td:first-child{box-shadow:inset 3px 0 var(--warn);padding-left:.6rem}
.faint td{color:var(--soft)}
.number{text-align:right;white-space:nowrap}
figure{margin:1.5rem 0}
figure svg{display:block;width:100%;min-width:34rem;height:auto}
figure.picture{margin:1rem 0}
figure img{display:block;width:100%;height:auto;border-radius:8px}
figcaption{margin-top:.5rem;max-width:44rem}
.gallery{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,24rem),1fr));gap:0 1.25rem}
.note{border-left:3px solid var(--rule);background:var(--tint);padding:.6rem .9rem;border-radius:0 6px 6px 0;font-size:.94rem;max-width:none}
.warning{border-color:var(--warn);background:var(--warn-tint)}.warning strong{color:var(--warn)}
footer{margin-top:3.5rem;padding-top:1rem;border-top:1px solid var(--rule);color:var(--soft);font-size:.84rem}
@media print{:root{--paper:#fff;--ink:#000;--soft:#444;--rule:#ccc;--tint:#f6f6f6;--warn:#7a3200;--warn-tint:#fff}body{max-width:none;padding:0;font-size:10.5pt}nav{display:none}h2{break-after:avoid}figure,.figures,tr,.note{break-inside:avoid}figure svg{min-width:0}.wide{overflow:visible}}
)css";

const std::string_view kPageScript = R"js(
"use strict";
for (const svg of document.querySelectorAll("svg.sp")) {
  const area = svg.querySelector(".sp-area"), paths = [...svg.querySelectorAll("path[data-name]")];
  if (!area || !paths.length) continue;
  const [left, top, right, bottom] = area.dataset.box.split(" ").map(Number);
  const [x0, x1, y0, y1] = area.dataset.range.split(" ").map(Number);
  const lines = paths.map(p => ({name: p.dataset.name, points: p.getAttribute("d").match(/-?[\d.]+ -?[\d.]+/g).map(q => q.split(" ").map(Number))}));
  const make = (name, parent) => parent.appendChild(document.createElementNS(svg.namespaceURI, name));
  const group = make("g", svg), rule = make("path", group), text = make("text", group);
  rule.setAttribute("class", "sp-a");
  text.setAttribute("class", "sp-i");
  group.style.pointerEvents = "none";
  group.style.display = "none";
  svg.addEventListener("pointerleave", () => { group.style.display = "none"; });
  svg.addEventListener("pointermove", event => {
    const u = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()).x;
    group.style.display = u < left || u > right ? "none" : "";
    if (group.style.display) return;
    const value = (v, low, high) => Number((low + v * (high - low)).toPrecision(3));
    const parts = lines.map(line => {
      const near = line.points.reduce((a, b) => Math.abs(b[0] - u) < Math.abs(a[0] - u) ? b : a);
      return Math.abs(near[0] - u) > 12 ? "" : `${line.name} ${value((bottom - near[1]) / (bottom - top), y0, y1)}`.trim();
    }).filter(part => part);
    rule.setAttribute("d", `M${u} ${top}V${bottom}`);
    text.setAttribute("x", right);
    text.setAttribute("y", top - 9);
    text.setAttribute("text-anchor", "end");
    text.textContent = [value((u - left) / (right - left), x0, x1), ...parts].join("  ·  ");
  });
}
)js";

const std::string_view kPageScriptHash = "sha256-wsYFj/T/jlo8o4ke1T7jKE6Nq/Q37fVrTLXjQHr+Ihw=";

}  // namespace sparkpilot::drive

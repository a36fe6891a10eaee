#!/usr/bin/env bash
# What `make tiny-model` does after the build: trains a driving model of less than a megabyte from nothing, on synthetic
# roads, and says how well it drives on roads that it never saw.
#
#   make tiny-model                 about 20 GB of samples and 40 minutes on two busy cores
#   make tiny-model SEED=2          other weights and another order of the samples
#
# OUT=DIR (out/tiny_model) is where data and results go; what is there is used again. ROUTES=N is the number of roads.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${PROGRAM:-build/sparkpilot}
out=${OUT:-out/tiny_model}
seed=${SEED:-1}
routes=${ROUTES:-1200}
run=$out/seed$seed
start=$run/start/demo_supercombo.onnx

$program zoo build demo_supercombo --seed "$seed" --out "$run/start" --quiet

echo "== $routes synthetic roads to learn from, ten others with bends and without traffic to drive on"
roads=(--every 4 --no-teacher --supercombo "$start" --quiet)
$program dataset build --synthetic "$routes" --seconds 8 --out "$out/roads" "${roads[@]}"
$program dataset build --synthetic 10 --seed 100001 --seconds 20 --road rural --no-traffic --out "$out/held_out" \
  "${roads[@]}"

# What the picture does not tell (meta) or what hardly varies (angles of the mounting) counts little; the pose, which
# is speed above all, more than its six values would.
losses=(--loss meta=0.1 --loss desire_pred=0.1 --loss road_transform=0 --loss wide_from_device_euler=0
  --loss lead=0.1 --loss lane_lines_prob=20 --loss lead_prob=20)
common=(--data "$out/roads" --mode full --against labels --least-scale 0.1 --batch 32 --clip 5000 --seed "$seed")

train() {  # train FOLDER FLAGS: goes on where it was stopped, and does nothing if it ended
  local folder=$1
  shift
  if [ -e "$folder/summary.json" ]; then return; fi
  if [ -d "$folder/checkpoints" ]; then $program train --resume "$folder"
  else $program train "${common[@]}" "${losses[@]}" --out "$folder" "$@"; fi
}
echo "== the pictures first: without memory"
# The path follows the lane lines that the model sees (docs/zoo.md), so these come first.
train "$run/pictures" --supercombo "$start" --fresh --no-rollout --rate 1.3e-3 --warmup 150 --epochs 3 --loss pose=4 \
  --loss plan=0.3
echo "== then the path, with what the model remembers of the last five seconds"
train "$run/path" --supercombo "$run/pictures/demo_supercombo.onnx" --own-features --rate 1e-3 --warmup 100 \
  --epochs 1.5 --loss pose=4 --loss plan=2
echo "== and the speed above all"
train "$run/speed" --supercombo "$run/path/demo_supercombo.onnx" --own-features --no-rollout --rate 1e-3 --warmup 50 \
  --epochs 1 --loss pose=16 --loss plan=2
cp "$run/speed/demo_supercombo.onnx" "$run/demo_supercombo.onnx"

echo "== on roads that it never saw"
$program dataset evaluate "$out/held_out" --split all --supercombo "$run/demo_supercombo.onnx"
echo "== the same without looking"
$program dataset evaluate "$out/held_out" --split all --supercombo "$run/demo_supercombo.onnx" --blank
echo "the model: $run/demo_supercombo.onnx"

#!/usr/bin/env bash
# What `make tiny-model` does after the build: trains a driving model of less than a megabyte from nothing, on synthetic
# roads, and says how well it drives on roads that it never saw.
#
#   make tiny-model                 about 30 GB of samples and 20 minutes on two cores
#   make tiny-model SEED=2          other weights and another order of the samples
#
# OUT=DIR (out/tiny_model) is where data and results go; what is there is used again.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${PROGRAM:-build/sparkpilot}
out=${OUT:-out/tiny_model}
seed=${SEED:-1}
run=$out/seed$seed
start=$run/start/demo_supercombo.onnx

$program zoo build demo_supercombo --seed "$seed" --out "$run/start" --quiet

echo "== synthetic roads to learn from, and others with bends and without traffic to drive on"
roads=(--every 4 --no-teacher --supercombo "$start" --quiet)
kinds=(--road "highway,rural,city,winding" --after 0.2 --traffic 0.5)
# Many roads, so that no road is learned by heart; long ones only where the past matters.
# Half of them without other cars: where all have some, the path brakes for cars that are not there.
$program dataset build --synthetic 7200 --seconds 1 "${kinds[@]}" --out "$out/short" "${roads[@]}"
$program dataset build --synthetic 1800 --seed 10001 --seconds 4 "${kinds[@]}" --out "$out/long" "${roads[@]}"
for kind in rural winding; do
  $program dataset build --synthetic 10 --seed 100001 --seconds 20 --road $kind --no-traffic --after 0.2 \
    --out "$out/held_out_$kind" "${roads[@]}"
done

# What the picture does not tell (meta) or what hardly varies (angles of the mounting) counts little.
losses=(--loss meta=0.1 --loss desire_pred=0.1 --loss road_transform=0 --loss wide_from_device_euler=0
  --loss lead=0.1 --loss lane_lines_prob=20 --loss lead_prob=20)
common=(--mode full --against labels --least-scale 0.1 --batch 32 --clip 5000 --seed "$seed")

train() {  # train FOLDER FLAGS: goes on where it was stopped, and does nothing if it ended
  local folder=$1
  shift
  if [ -e "$folder/summary.json" ]; then return; fi
  if [ -d "$folder/checkpoints" ]; then $program train --resume "$folder"
  else $program train "${common[@]}" "${losses[@]}" --out "$folder" "$@"; fi
}
echo "== the pictures first: without memory"
# The path follows the lane lines and the speed that the model sees (docs/zoo.md), so these come first. The pose, which
# is speed above all, counts more than its six values would.
train "$run/pictures" --data "$out/short" --supercombo "$start" --fresh --no-rollout --rate 1.3e-3 --warmup 150 \
  --epochs 3 --loss plan=0.3 --loss pose=4
# The plan's x follows the pose's speed: where that counts little, it is moved to make up for the plan's errors.
echo "== then the path, with the speeds that the model remembers"
train "$run/path" --data "$out/long" --supercombo "$run/pictures/demo_supercombo.onnx" --own-features --no-rollout \
  --rate 1e-3 --warmup 100 --epochs 2.5 --loss plan=2 --loss pose=40
cp "$run/path/demo_supercombo.onnx" "$run/demo_supercombo.onnx"

for kind in rural winding; do
  echo "== on ten $kind roads that it never saw"
  $program dataset evaluate "$out/held_out_$kind" --split all --supercombo "$run/demo_supercombo.onnx"
  echo "== the same without looking"
  $program dataset evaluate "$out/held_out_$kind" --split all --supercombo "$run/demo_supercombo.onnx" --blank
done
echo "the model: $run/demo_supercombo.onnx"

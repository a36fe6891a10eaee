// The arguments of all kernels that kernels.inc lists.
#pragma once

#include "ops/cuda/adamw.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/conv_chain.h"
#include "ops/cuda/convolution.h"
#include "ops/cuda/copy.h"
#include "ops/cuda/depthwise.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/gather.h"
#include "ops/cuda/gemv.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/limits.h"
#include "ops/cuda/pooling.h"
#include "ops/cuda/products.h"
#include "ops/cuda/reduce.h"
#include "ops/cuda/rows.h"

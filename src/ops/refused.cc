// Ops that are known but cannot be run, with the reason that the user is given.
#include "ops/registry.h"

namespace sparkpilot::refused_ops {
namespace {

constexpr std::string_view kMl = "ai.onnx.ml";
constexpr std::string_view kSequence = "sequence values are not supported, only tensors";
constexpr std::string_view kOptional = "optional values are not supported, only tensors";
constexpr std::string_view kString = "string tensors are not supported";
constexpr std::string_view kGrams = "counting n-grams is not supported";
constexpr std::string_view kImage = "compressed images are not decoded inside a graph";
constexpr std::string_view kTrees = "decision trees are not supported";
constexpr std::string_view kVectors = "support vector machines are not supported";
constexpr std::string_view kMaps = "map values are not supported, only tensors";

constexpr OpDef refused(std::string_view name, std::string_view reason, std::string_view domain = "") {
  return {.name = name,
          .domain = domain,
          .doc = "Known, but not run.",
          .inputs = {0, kMany},
          .outputs = {0, kMany},
          .refused = reason};
}

const OpDef kOps[] = {
    refused("SequenceConstruct", kSequence),
    refused("SequenceAt", kSequence),
    refused("SequenceEmpty", kSequence),
    refused("SequenceInsert", kSequence),
    refused("SequenceErase", kSequence),
    refused("SequenceLength", kSequence),
    refused("SequenceMap", kSequence),
    refused("SplitToSequence", kSequence),
    refused("ConcatFromSequence", kSequence),
    refused("Optional", kOptional),
    refused("StringNormalizer", kString),
    refused("StringConcat", kString),
    refused("StringSplit", kString),
    refused("RegexFullMatch", kString),
    refused("TfIdfVectorizer", kGrams),
    refused("ImageDecoder", kImage),
    refused("TreeEnsemble", kTrees, kMl),
    refused("TreeEnsembleClassifier", kTrees, kMl),
    refused("TreeEnsembleRegressor", kTrees, kMl),
    refused("SVMClassifier", kVectors, kMl),
    refused("SVMRegressor", kVectors, kMl),
    refused("CategoryMapper", kString, kMl),
    refused("DictVectorizer", kMaps, kMl),
    refused("CastMap", kMaps, kMl),
    refused("ZipMap", kMaps, kMl),
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::refused_ops

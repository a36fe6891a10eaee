// Models written by hand, field by field, with the field numbers of onnx.proto.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sparkpilot {

// Hand-written protobuf messages, for models that no exporter would write.
class Message {
 public:
  Message& number(int field, uint64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(value);
    return *this;
  }
  Message& text(int field, const std::string& value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// -1: open, named "batch"; -2: open, without a name.
inline Message dimensions(const std::vector<int64_t>& sizes) {
  Message shape;
  for (const int64_t size : sizes) {
    shape.message(1, size == -2   ? Message()
                     : size == -1 ? Message().text(2, "batch")
                                  : Message().number(1, static_cast<uint64_t>(size)));
  }
  return shape;
}

inline Message value_info(const std::string& name, const std::vector<int64_t>& sizes) {
  const Message tensor = Message().number(1, 1).message(2, dimensions(sizes));
  return Message().text(1, name).message(2, Message().message(1, tensor));
}

inline Message node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs,
                    const std::string& output) {
  Message m;
  for (const std::string& input : inputs) m.text(1, input);
  return m.text(2, output).text(3, name).text(4, op);
}

inline Message initializer(const std::string& name, const std::vector<int64_t>& sizes, const std::string& raw) {
  Message m;
  for (const int64_t size : sizes) m.number(1, static_cast<uint64_t>(size));
  return m.number(2, 1).text(8, name).text(9, raw);
}

inline Message external(const std::string& name, const std::string& location) {
  return Message()
      .number(1, 2)
      .number(2, 1)
      .text(8, name)
      .message(13, Message().text(1, "location").text(2, location))
      .number(14, 1);
}

inline std::string model(const std::vector<Message>& nodes, const std::vector<Message>& weights = {},
                         const std::vector<int64_t>& input = {2}, int opset = 17) {
  Message graph;
  for (const Message& n : nodes) graph.message(1, n);
  graph.text(2, "g");
  for (const Message& weight : weights) graph.message(5, weight);
  graph.message(11, value_info("x", input)).message(12, value_info("y", {2}));
  return Message()
      .number(1, 8)
      .message(7, graph)
      .message(8, Message().text(1, "").number(2, static_cast<uint64_t>(opset)))
      .bytes();
}

}  // namespace sparkpilot

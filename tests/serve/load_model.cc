// Loads a SavedModel as TF Serving does, and answers the lines of standard input.
//
//   load_model EXPORT_DIR LIBRARY... < "task<TAB>text<TAB>text_pair" lines
//
// prints for each line the label and the probabilities, or one line "error: ...".
#include <dlfcn.h>

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/tensor.h"

using tensorflow::Tensor;
using tensorflow::tstring;

int main(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    if (!dlopen(argv[i], RTLD_NOW)) {
      std::cerr << dlerror() << std::endl;
      return 2;
    }
  }
  tensorflow::SavedModelBundle bundle;
  auto status = tensorflow::LoadSavedModel({}, {}, argv[1], {"serve"}, &bundle);
  if (!status.ok()) {
    std::cerr << status.ToString() << std::endl;
    return 3;
  }
  std::vector<std::vector<std::string>> columns(3);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream fields(line);
    for (auto& column : columns) {
      column.emplace_back();
      std::getline(fields, column.back(), '\t');
    }
  }
  const auto& signature = bundle.GetSignatures().at("serving_default");
  std::vector<std::pair<std::string, Tensor>> inputs;
  const char* names[] = {"task", "text", "text_pair"};
  for (int i = 0; i < 3; ++i) {
    const auto input = signature.inputs().find(names[i]);
    if (input == signature.inputs().end()) continue;
    const int64_t rows = columns[i].size();
    Tensor tensor(tensorflow::DT_STRING, {rows});
    for (int64_t row = 0; row < rows; ++row) tensor.flat<tstring>()(row) = columns[i][row];
    inputs.emplace_back(input->second.name(), tensor);
  }
  std::vector<Tensor> outputs;
  status = bundle.session->Run(
      inputs,
      {signature.outputs().at("label").name(), signature.outputs().at("error").name(),
       signature.outputs().at("probabilities").name()},
      {}, &outputs);
  if (!status.ok()) {
    std::cout << "error: " << status.message() << std::endl;
    return 0;
  }
  const auto probabilities = outputs[2].matrix<float>();
  std::cout.precision(9);
  for (int64_t row = 0; row < probabilities.dimension(0); ++row) {
    std::cout << outputs[0].flat<tstring>()(row) << '\t' << outputs[1].flat<tstring>()(row);
    for (int64_t i = 0; i < probabilities.dimension(1); ++i) std::cout << '\t' << probabilities(row, i);
    std::cout << '\n';
  }
}

// The Python module `octet`: include/octet/octet.h in Python's types. docs/library.md
#include "include/octet/octet.h"

#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

namespace py = pybind11;

namespace {

std::string text_of_recipe(const py::object& recipe) {
  if (py::isinstance<py::dict>(recipe)) return py::cast<std::string>(py::module_::import("json").attr("dumps")(recipe));
  return py::cast<std::string>(py::module_::import("os").attr("fspath")(recipe));
}

std::string path_of(const py::object& path) {
  return py::cast<std::string>(py::module_::import("os").attr("fspath")(path));
}

// A string or a path is one file, and an array of three dimensions one picture: both would be read as sequences.
std::vector<octet::Prediction> predict(octet::Network& network, const py::object& images) {
  using Pixels = py::array_t<std::uint8_t, py::array::c_style>;
  const bool picture = py::isinstance<py::array>(images) && py::cast<py::array>(images).ndim() == 3;
  if (picture || py::isinstance<py::str>(images) || py::hasattr(images, "__fspath__"))
    throw py::type_error("predict() takes a list of images; fix: predict([image])");
  std::vector<std::string> files;
  std::vector<octet::Image> pictures;
  std::vector<Pixels> arrays;  // keeps the pixels alive
  for (const py::handle& image : images) {
    if (!py::isinstance<py::array>(image)) {
      files.push_back(path_of(py::reinterpret_borrow<py::object>(image)));
      continue;
    }
    const auto array = py::reinterpret_borrow<py::array>(image);
    if (array.dtype().kind() != 'u' || array.itemsize() != 1 || array.ndim() != 3 || array.shape(2) != 3)
      throw py::type_error("an image is an array " + std::string(py::str(array.attr("shape"))) + " of " +
                           std::string(py::str(array.dtype())) +
                           "; fix: give (height, width, 3) of uint8, in the order red, green, blue");
    arrays.push_back(Pixels::ensure(array));
    pictures.push_back({arrays.back().data(), arrays.back().shape(0), arrays.back().shape(1)});
  }
  if (!files.empty() && !pictures.empty())
    throw py::type_error("file names and arrays are mixed; fix: call predict() for each kind");
  const py::gil_scoped_release released;
  return files.empty() ? network.predict(pictures) : network.predict_files(files);
}

octet::Result train(const py::object& recipe, const std::vector<std::string>& overrides, const py::object& on_step,
                    const py::object& run, bool resume) {
  octet::TrainOptions options;
  if (!run.is_none()) options.run_directory = path_of(run);
  options.resume = resume;
  options.stop = [] {  // Ctrl-C
    const py::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    return false;
  };
  if (!on_step.is_none())
    options.on_step = [&](const octet::Step& step) {
      const py::gil_scoped_acquire acquired;
      const py::object answer = on_step(step);
      return answer.is_none() || answer.cast<bool>();
    };
  const std::string text = text_of_recipe(recipe);
  const py::gil_scoped_release released;
  return octet::train(text, overrides, options);
}

template <class T>
py::array_t<T> array_of(std::vector<T> values, const std::vector<py::ssize_t>& shape) {
  auto* const kept = new std::vector<T>(std::move(values));
  const py::capsule owner(kept, [](void* of) { delete static_cast<std::vector<T>*>(of); });
  return py::array_t<T>(shape, kept->data(), owner);
}

py::dict weights(const py::object& path) {
  std::vector<octet::Tensor> tensors = [&, file = path_of(path)] {
    const py::gil_scoped_release released;
    return octet::weights(file);
  }();
  py::dict all;
  for (octet::Tensor& tensor : tensors)
    all[py::str(tensor.name)] =
        array_of(std::move(tensor.values), std::vector<py::ssize_t>(tensor.shape.begin(), tensor.shape.end()));
  return all;
}

py::dict figures_of(const octet::Result& result) {
  py::dict all;
  for (const auto& [name, value] : result.figures) all[py::str(name)] = value;
  return all;
}

void declare_predictions(py::module_& module) {
  py::class_<octet::Object>(module, "Object", "What a detector found, in pixels of the image.")
      .def_readonly("label", &octet::Object::label)
      .def_readonly("name", &octet::Object::name)
      .def_readonly("score", &octet::Object::score)
      .def_property_readonly(
          "box", [](const octet::Object& of) { return py::make_tuple(of.x, of.y, of.width, of.height); },
          "x, y, width, height, from the left and upper edge")
      .def("__repr__",
           [](const octet::Object& of) { return py::str("<octet.Object {} {:.2f}>").format(of.name, of.score); });
  py::class_<octet::Prediction>(module, "Prediction", "The answer to one image.")
      .def_readonly("label", &octet::Prediction::label, "of the most probable class; of a detector -1")
      .def_readonly("name", &octet::Prediction::name)
      .def_readonly("probability", &octet::Prediction::probability)
      .def_property_readonly(
          "probabilities",
          [](const octet::Prediction& of) {
            return array_of(of.probabilities, {py::ssize_t(of.probabilities.size())});
          },
          "of all classes, float32")
      .def_property_readonly(
          "logits", [](const octet::Prediction& of) { return array_of(of.logits, {py::ssize_t(of.logits.size())}); })
      .def_readonly("objects", &octet::Prediction::objects, "of a detector, the best first")
      .def("__repr__", [](const octet::Prediction& of) {
        return of.label < 0 ? py::str("<octet.Prediction {} objects>").format(of.objects.size())
                            : py::str("<octet.Prediction {} {:.4f}>").format(of.name, of.probability);
      });
}

void declare_network(py::module_& module) {
  py::class_<octet::Network>(module, "Network", "A trained network; see load().")
      .def_property_readonly("classes", &octet::Network::classes, "names by label")
      .def_property_readonly("finds_objects", &octet::Network::finds_objects)
      .def_property_readonly(
          "input_size", [](const octet::Network& of) { return py::make_tuple(of.input_height(), of.input_width()); },
          "height, width in pixels, to which images are resized")
      .def("predict", &predict, py::arg("images"),
           "Answers to a list of file names, or of uint8 arrays (height, width, 3) in the order red, green, blue.");
  module.def(
      "load",
      [](const py::object& path, const std::vector<std::string>& overrides, double score) {
        const std::string named = path_of(path);
        const py::gil_scoped_release released;
        return octet::Network::load(named, overrides, score);
      },
      py::arg("path"), py::arg("overrides") = std::vector<std::string>(), py::arg("score") = 0.3,
      "A trained network: the directory of a run, or a safetensors file that octet wrote. score: the least of an "
      "object "
      "that a detector names.");
}

void declare_training(py::module_& module) {
  py::class_<octet::Step>(module, "Step", "A step of a training that is done.")
      .def_readonly("step", &octet::Step::step, "from 1")
      .def_readonly("steps", &octet::Step::steps, "of the whole training")
      .def_readonly("loss", &octet::Step::loss, "NaN: the step was skipped")
      .def_readonly("learning_rate", &octet::Step::learning_rate);
  py::class_<octet::Result>(module, "Result", "How a training ended.")
      .def_readonly("run", &octet::Result::run_directory, "the directory of the run")
      .def_readonly("finished", &octet::Result::finished, "False: stopped; train(..., resume=True) continues")
      .def_readonly("steps", &octet::Result::steps)
      .def_property_readonly("figures", &figures_of, "on the test set, the main one first")
      .def("__repr__", [](const octet::Result& of) {
        return py::str("<octet.Result {}: {} steps, {}>").format(of.run_directory, of.steps, figures_of(of));
      });
  module.def("train", &train, py::arg("recipe"), py::arg("overrides") = std::vector<std::string>(),
             py::arg("on_step") = py::none(), py::kw_only(), py::arg("run") = py::none(), py::arg("resume") = false,
             "Trains a recipe: the path of a YAML file, YAML itself, or a dict. on_step is called with a Step; if it "
             "returns False or raises, the training writes a checkpoint and ends.");
}

// The layout of numpy's types changed in its version 2, of which pybind11 knows since 2.12.
void require_known_numpy() {
  const auto version = py::cast<std::string>(py::module_::import("numpy").attr("__version__"));
  if (PYBIND11_VERSION_HEX < 0x020C0000 && std::stoi(version) >= 2)
    throw py::import_error("this build of octet knows numpy 1, not " + version + "; fix: pip install 'numpy<2'");
}

}  // namespace

PYBIND11_MODULE(octet, module) {
  require_known_numpy();
  module.doc() = "octet trains convolutional networks in INT8.";
  module.attr("__version__") = octet::version();
  py::register_exception<octet::Failure>(module, "Failure", PyExc_RuntimeError);
  declare_predictions(module);
  declare_network(module);
  declare_training(module);
  module.def("weights", &weights, py::arg("path"), "The tensors of a safetensors file or a run, as float32 arrays.");
}

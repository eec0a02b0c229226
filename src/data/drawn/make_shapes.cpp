#include "src/data/drawn/make_shapes.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "kernels/base/stop_signals.h"
#include "src/data/drawn/shapes_detection.h"
#include "src/data/images/encode_image.h"

namespace octet {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A directory under another name until commit(). Without it the directory is removed.
class NewDirectory {
 public:
  explicit NewDirectory(const std::string& path) : path_(fs::absolute(path).lexically_normal()) {
    if (!path_.has_filename()) path_ = path_.parent_path();  // DIR/
    std::error_code failed;
    const bool free = !fs::exists(path_, failed) || (fs::is_directory(path_, failed) && fs::is_empty(path_, failed));
    REQUIRE_USAGE(free && !failed, "choose a directory that is empty or does not exist", path,
                  failed ? ": " + failed.message() : " holds files already");
    fs::create_directories(path_.parent_path(), failed);
    std::string name = path_.string() + ".XXXXXX";
    REQUIRE_USAGE(mkdtemp(name.data()), "choose a directory that can be written", "cannot create ", name, ": ",
                  std::strerror(errno));
    temporary_ = name;
    fs::permissions(temporary_, fs::perms(0755));
  }
  ~NewDirectory() {
    std::error_code ignored;
    if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  }
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  const fs::path& place() const { return temporary_; }
  void commit() {
    fs::rename(temporary_, path_);
    temporary_.clear();
  }

 private:
  fs::path path_, temporary_;
};

void write_png(const fs::path& file, const Scene& scene, int side) {
  const std::vector<uint8_t> bytes = png_of(Raster(side, side, 3, const_cast<uint8_t*>(scene.pixels.data())));
  std::ofstream stream(file, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  if (!stream.good())
    throw FileError(__FILE__, __LINE__, "cannot write " + file.string(), "free some space, and check the permissions");
}

// The sections of COCO's file of annotations. The format: https://cocodataset.org/#format-data.
Json sections(const Annotations& annotations) {
  Json images = Json::array(), objects = Json::array(), categories = Json::array();
  for (size_t label = 0; label < annotations.classes.size(); ++label)
    categories.push_back(
        {{"id", annotations.category_ids[label]}, {"name", annotations.classes[label]}, {"supercategory", "shape"}});
  for (const AnnotatedImage& image : annotations.images) {
    images.push_back({{"id", image.id}, {"file_name", image.name}, {"height", image.height}, {"width", image.width}});
    for (const Object& object : image.objects)
      objects.push_back({{"id", objects.size() + 1},
                         {"image_id", image.id},
                         {"category_id", annotations.category_ids[static_cast<size_t>(object.label)]},
                         {"bbox", {object.box.x, object.box.y, object.box.width, object.box.height}},
                         {"area", object.area},
                         {"iscrowd", object.crowd ? 1 : 0}});
  }
  return {{"images", images}, {"annotations", objects}, {"categories", categories}};
}

}  // namespace

void make_shapes(const std::string& directory, int64_t samples, int side,
                 const std::function<void(int64_t written, int64_t all)>& progress) {
  stop_on({SIGINT, SIGTERM});  // then what was written is removed
  NewDirectory made(directory);
  fs::create_directory(made.place() / "annotations");
  const int64_t tests = std::max<int64_t>(samples / 8, 1);
  int64_t written = 0;
  for (const auto& [name, split, count] :
       {std::tuple{"train2017", DrawStream::train_picture, samples}, {"val2017", DrawStream::test_picture, tests}}) {
    fs::create_directory(made.place() / name);
    Annotations annotations = shape_annotations();
    for (int64_t index = 0; index < count; ++index) {
      REQUIRE(!stop_requested(), "start it again", "stopped by a signal; ", directory, " was not written");
      Scene scene = draw_scene(split, index, side);
      write_png(made.place() / name / scene.image.name, scene, side);
      annotations.images.push_back(std::move(scene.image));
      progress(++written, samples + tests);
    }
    const fs::path file = made.place() / "annotations" / say("instances_", name, ".json");
    write_durably(file.string(), sections(annotations).dump());
  }
  made.commit();
}

}  // namespace octet

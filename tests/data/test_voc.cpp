#include <cstdlib>
#include <random>

#include "src/data/annotations/annotation_files.h"
#include "tests/data/annotated.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

std::string object_of(const std::string& name, const std::string& more = "") {
  return "<object><name>" + name + "</name>" + more +
         "<part><name>head</name><bndbox><xmin>1</xmin></bndbox></part>"
         "<bndbox><ymax> 40.0 </ymax><xmin>11</xmin><ymin>21</ymin><xmax>30</xmax></bndbox></object>";
}
std::string xml_of(const std::string& objects) {
  return "<?xml version=\"1.0\"?><annotation><filename>wrong.gif</filename><size><width>100</width><height>80</height>"
         "<depth>3</depth></size>" +
         objects + "</annotation>";
}

// A folder of VOC's form that `add` fills.
class VocFolder {
 public:
  explicit VocFolder(const std::string& below = "") : below_(below) {}
  Config config() const { return config_of("voc", folder_.path()); }
  fs::path path() const { return folder_.path() / below_; }
  void list(const std::string& set, const std::string& lines) const {
    write_text(path() / "ImageSets/Main" / (set + ".txt"), lines);
  }
  void image(const std::string& name, const std::string& xml) const {
    write_text(path() / "Annotations" / (name + ".xml"), xml);
  }
  std::string refusal(const std::string& xml) const {
    list("train", "a\n");
    image("a", xml);
    return message_of<UsageError>([&] { read_annotations(config(), Split::train); });
  }

 private:
  TemporaryFolder folder_;
  std::string below_;
};

// XML files beside their images, or apart from them, that no list names.
TEST(Voc, FilesWithoutListsAreDividedByHoldout) {
  for (const bool apart : {false, true}) {
    const VocFolder folder;
    for (const char* name : {"a", "b", "c", "d"}) {
      write_text(folder.path() / (apart ? "Annotations" : "") / (std::string(name) + ".xml"), xml_of(object_of("ant")));
      write_text(folder.path() / (apart ? "images" : "") / (std::string(name) + ".png"), name);
    }
    Config config = folder.config();
    expect_says(message_of<UsageError>([&] { read_annotations(config, Split::train); }), {"data.holdout: 0.15"});
    config.data.holdout = 0.25;
    const Annotations train = read_annotations(config, Split::train), test = read_annotations(config, Split::test);
    EXPECT_EQ(train.images.size(), 3u);
    ASSERT_EQ(test.images.size(), 1u);
    const std::string name = test.images[0].name;
    EXPECT_EQ(test.images[0].path, (folder.path() / (apart ? "images" : "") / (name + ".png")).string());
    EXPECT_EQ(test.classes, std::vector<std::string>{"ant"});
  }
}

TEST(Voc, ReadsBoxesFromOneAndObjectsByName) {
  const VocFolder folder;
  folder.list("trainval", "b\r\n\n a \n");
  folder.list("test", "c\n");
  folder.image("a", xml_of(object_of("zebra", "<difficult>1</difficult>") + object_of("ant")));
  folder.image("b", xml_of(""));
  folder.image("c", xml_of(object_of("zebra")));
  write_text(folder.path() / "JPEGImages/a.PNG", "x");
  const Annotations all = read_all_annotations(folder.config(), Split::train);
  EXPECT_EQ(all.classes, (std::vector<std::string>{"ant", "zebra"}));
  EXPECT_EQ(all.category_ids, (std::vector<int64_t>{1, 2}));
  ASSERT_EQ(all.images.size(), 2u);
  EXPECT_TRUE(all.images[0].objects.empty());
  EXPECT_EQ(all.images[0].path, (folder.path() / "JPEGImages/b.jpg").string());
  const AnnotatedImage& a = all.images[1];
  EXPECT_EQ(a.id, 2);
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.path, (folder.path() / "JPEGImages/a.PNG").string());
  EXPECT_EQ(a.width, 100);
  EXPECT_EQ(a.height, 80);
  ASSERT_EQ(a.objects.size(), 2u);
  EXPECT_EQ(a.objects[0].label, 1);
  EXPECT_EQ(a.objects[1].id, 2);
  EXPECT_TRUE(a.objects[0].difficult);
  EXPECT_FALSE(a.objects[1].difficult);
  const BoxInFile& box = a.objects[0].box;
  EXPECT_EQ(box.x, 10);
  EXPECT_EQ(box.y, 20);
  EXPECT_EQ(box.width, 20);
  EXPECT_EQ(box.height, 20);
  EXPECT_EQ(a.objects[0].area, 400);
  const Annotations test = read_annotations(folder.config(), Split::test);
  EXPECT_EQ(test.classes, all.classes);
  ASSERT_EQ(test.images.size(), 1u);
  EXPECT_EQ(test.images[0].objects[0].label, 1);
}

TEST(Voc, ASizeThatIsMissingOrNoneIsNotKnown) {
  const struct {
    std::string size;
    int32_t width, height;
    const char* odd;
  } cases[] = {{"", 0, 0, ""},
               {"<size/>", 0, 0, ""},
               {"<size><width></width><height> </height></size>", 0, 0, ""},
               {"<size><width>100</width></size>", 0, 0, ""},
               {"<size><width>100</width><height/></size>", 0, 0, ""},
               {"<size><width>0</width><height>0</height></size>", 0, 0, ""},
               {"<size><width> 100.0 </width><height>80</height></size>", 100, 80, ""},
               {"<size><width>100</width><height>80.5</height></size>", 0, 0, "100 x 80.5"},
               {"<size><width>-3</width><height>80</height></size>", 0, 0, "-3 x 80"},
               {"<size><width>nan</width><height>80</height></size>", 0, 0, "nan x 80"}};
  for (const auto& [size, width, height, odd] : cases) {
    const VocImage image = parse_voc("<annotation>" + size + object_of("dog") + "</annotation>", "a.xml");
    EXPECT_EQ(image.size.width, width) << size;
    EXPECT_EQ(image.size.height, height) << size;
    EXPECT_EQ(image.size.odd, odd) << size;
    EXPECT_EQ(image.objects.size(), 1u);
  }
  const VocFolder folder;
  folder.list("train", "a\n");
  folder.image("a", "<annotation>" + cases[8].size + object_of("dog") + "</annotation>");
  expect_says(joined(read_annotations(folder.config(), Split::train).doubts, "\n"),
              {"1 images have an annotated size that is no size", "-3 x 80 of a"});
}

TEST(Voc, FlagsMayBeEmptyOrWords) {
  for (const auto& [flag, difficult] : {std::pair("", false),
                                        {" ", false},
                                        {"Unspecified", false},
                                        {"False", false},
                                        {"false", false},
                                        {"0", false},
                                        {"0.0", false},
                                        {"True", true},
                                        {" true ", true},
                                        {"1", true},
                                        {"2", true}}) {
    const std::string text = say("<difficult>", flag, "</difficult><truncated>?</truncated>");
    EXPECT_EQ(parse_voc(xml_of(object_of("dog", text)), "a.xml").objects[0].difficult, difficult) << flag;
  }
}

// As those who trace outlines export them.
TEST(Voc, OutlinesBesideABoxAreSkipped) {
  const std::string polygon = "<polygon><x1>1</x1><y1>2</y1></polygon><attributes><attribute/></attributes>";
  const VocImage image = parse_voc("\xEF\xBB\xBF" + xml_of(object_of("red  cell", polygon)), "a.xml");
  ASSERT_EQ(image.objects.size(), 1u);
  EXPECT_EQ(image.objects[0].name, "red  cell");
  EXPECT_EQ(image.objects[0].box.x, 10);
}

TEST(Voc, RefusesATestSetOfDifficultObjectsAlone) {
  const VocFolder folder;
  folder.list("train", "a\n");
  folder.list("val", "b\n");
  folder.image("a", xml_of(object_of("dog")));
  for (const std::string& objects : {std::string(), object_of("dog", "<difficult>1</difficult>")}) {
    folder.image("b", xml_of(objects));
    expect_says(message_of<UsageError>(
                    [&] { require_objects_to_find(read_annotations(folder.config(), Split::test), "root"); }),
                {"the test set has no object to find"});
  }
}

TEST(Voc, DifficultObjectsTrainOnDemand) {
  const VocFolder folder;
  folder.list("train", "a\n");
  folder.list("val", "a\n");
  folder.image("a", xml_of(object_of("dog", "<difficult>1</difficult>") + object_of("cat")));
  Config config = folder.config();
  EXPECT_EQ(read_annotations(config, Split::train).images[0].objects.size(), 1u);
  EXPECT_EQ(read_annotations(config, Split::test).images[0].objects.size(), 2u);
  config.data.difficult = "train";
  EXPECT_EQ(read_annotations(config, Split::train).images[0].objects.size(), 2u);
}

TEST(Voc, JoinsYearsAndKnowsTheTwentyClasses) {
  const VocFolder folder("VOC2007");
  folder.list("trainval", "a\n");
  folder.list("train", "no such image\n");
  folder.list("test", "b\n");
  folder.image("a", xml_of(object_of("dog")));
  folder.image("b", xml_of(object_of("tvmonitor")));
  const fs::path newer = folder.path().parent_path() / "VOC2012";
  write_text(newer / "ImageSets/Main/trainval.txt", "c\nd\n");
  write_text(newer / "ImageSets/Main/dog_trainval.txt", "c -1\nd  1\n");
  for (const char* name : {"c", "d"}) write_text(newer / "Annotations" / (std::string(name) + ".xml"), xml_of(""));
  Config config = folder.config();
  const Annotations train = read_annotations(config, Split::train);
  EXPECT_EQ(train.classes.size(), 20u);
  EXPECT_EQ(train.images.size(), 3u);
  EXPECT_EQ(train.images[0].objects[0].label, 11);
  const Annotations test = read_annotations(config, Split::test);
  ASSERT_EQ(test.images.size(), 1u);
  EXPECT_EQ(test.images[0].objects[0].label, 19);
  config.data.sets = "2007/trainval, VOC2012/dog_trainval";
  EXPECT_EQ(read_annotations(config, Split::train).images.size(), 2u);
  config.data.sets = "2007/trainval, 2011/trainval";
  expect_says(message_of<UsageError>([&] { read_annotations(config, Split::train); }),
              {"2011/trainval", "there is no file", "VOC2011"});
  config.data.sets = "2007/trainval,2007/trainval";
  expect_says(message_of<UsageError>([&] { read_annotations(config, Split::train); }), {"`a` was listed before"});
}

std::vector<std::string> names_of(const Annotations& annotations) {
  std::vector<std::string> names;
  for (const AnnotatedImage& image : annotations.images) names.push_back(image.name);
  return names;
}

// As microscopes name a series of pictures.
TEST(Voc, ANumberMayBelongToTheName) {
  const VocFolder folder;
  std::vector<std::string> names;
  std::string list;
  for (int i = -2; i <= 12; ++i) {
    names.push_back("Snap " + std::to_string(i));
    list += names.back() + "\n";
    folder.image(names.back(), xml_of(object_of("cell")));
  }
  folder.list("train", list);
  write_text(folder.path() / "JPEGImages/Snap -1.png", "x");
  const Annotations all = read_annotations(folder.config(), Split::train);
  EXPECT_EQ(names_of(all), names);
  EXPECT_EQ(all.images[1].path, (folder.path() / "JPEGImages/Snap -1.png").string());
  // A file that is missing is not taken for the label of another class.
  fs::remove(folder.path() / "Annotations/Snap -1.xml");
  expect_says(message_of<UsageError>([&] { read_annotations(folder.config(), Split::train); }),
              {"Snap -1.xml: there is no such file"});
}

// Names and labels of every form, drawn at random: which files exist decides.
TEST(Voc, ReadsListsWithAndWithoutLabels) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const VocFolder folder;
    std::string plain, labelled;
    std::vector<std::string> names, present;
    for (int i = 0; i < 12; ++i) {
      const char* const ends[] = {"", " -1", " 0", " 1", " 7", "\t1", " 1 1"};
      names.push_back("a" + std::to_string(i) + ends[random() % std::size(ends)]);
      folder.image(names.back(), xml_of(object_of("cell")));
      const int label = int(random() % 3) - 1;
      plain += names.back() + "\r\n";
      labelled += names.back() + (label < 0 ? " -1\n" : label == 0 ? "  0\n" : "  1\n");
      if (label >= 0) present.push_back(names.back());
    }
    folder.list("train", plain);
    EXPECT_EQ(names_of(read_annotations(folder.config(), Split::train)), names) << plain;
    if (present.empty()) continue;
    folder.list("train", labelled);
    EXPECT_EQ(names_of(read_annotations(folder.config(), Split::train)), present) << labelled;
  }
}

TEST(Voc, ListsMayNameTheFilesOfImages) {
  const VocFolder folder;
  for (const char* name : {"a", "b.png", "cam0/c"}) folder.image(name, xml_of(object_of("cell")));
  folder.list("train",
              "\xEF\xBB\xBF"
              "a.jpg\nb.png\ncam0/c.tif\n");
  EXPECT_EQ(names_of(read_annotations(folder.config(), Split::train)),
            (std::vector<std::string>{"a", "b.png", "cam0/c"}));
}

TEST(Voc, FindsImagesOfEveryFormat) {
  for (const std::string name : {"a", "cam0/a", "a.b"})
    for (const char* ending : {".jpg", ".JPG", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".TIFF", ".ppm", ".pgm"}) {
      const VocFolder folder;
      folder.list("train", name + "\n");
      folder.image(name, xml_of(object_of("cell")));
      const fs::path file = folder.path() / "JPEGImages" / (name + ending);
      write_text(file, "x");
      write_text(folder.path() / "JPEGImages" / (name + ".txt"), "x");
      EXPECT_EQ(read_annotations(folder.config(), Split::train).images[0].path, file.string());
      // What was read before other formats were known is read still.
      const fs::path usual = folder.path() / "JPEGImages" / (name + ".jpg");
      write_text(usual, "x");
      EXPECT_EQ(read_annotations(folder.config(), Split::train).images[0].path, usual.string());
    }
}

// A photograph and its mask: nothing says which of them is which.
TEST(Voc, RefusesTwoImagesOfOneName) {
  const VocFolder folder;
  folder.list("train", "a\n");
  folder.image("a", xml_of(object_of("cell")));
  for (const char* ending : {".tif", ".png"})
    write_text(folder.path() / "JPEGImages" / (std::string("a") + ending), "x");
  expect_says(message_of<UsageError>([&] { read_annotations(folder.config(), Split::train); }),
              {"several images of one name: a.png, a.tif", "keep one"});
}

TEST(Voc, WithoutATestSetTrainTrainsAndValIsJudged) {
  const VocFolder folder;
  for (const char* set : {"train", "val", "trainval"}) {
    folder.list(set, std::string(set) + "\n");
    folder.image(set, xml_of(object_of("cell")));
  }
  EXPECT_EQ(read_annotations(folder.config(), Split::train).images[0].name, "train");
  EXPECT_EQ(read_annotations(folder.config(), Split::test).images[0].name, "val");
}

// `octet eval --images`: the test set where there is one, and else every image; classes are those of what is judged.
TEST(Voc, ReadsWhatIsJudgedWithoutATrainingSet) {
  const VocFolder folder;
  folder.image("a", xml_of(object_of("ant")));
  folder.image("b", xml_of(object_of("zebra")));
  folder.list("test", "b\n");
  const Annotations test = read_annotations_to_judge(folder.config());
  EXPECT_EQ(test.classes, std::vector<std::string>{"zebra"});
  ASSERT_EQ(test.images.size(), 1u);
  EXPECT_EQ(test.images[0].name, "b");
  fs::remove_all(folder.path() / "ImageSets");
  const Annotations all = read_annotations_to_judge(folder.config());
  EXPECT_EQ(all.classes, (std::vector<std::string>{"ant", "zebra"}));
  EXPECT_EQ(all.images.size(), 2u);
}

TEST(Voc, RefusesClassesThatTrainingDoesNotKnow) {
  const VocFolder folder;
  folder.list("train", "a\n");
  folder.list("val", "b\n");
  folder.image("a", xml_of(object_of("ant")));
  folder.image("b", xml_of(object_of("bee") + object_of("ant") + object_of("wasp")));
  expect_says(message_of<UsageError>([&] { read_annotations(folder.config(), Split::test); }), {"bee, wasp"});
}

TEST(Voc, RefusesDamagedFiles) {
  const VocFolder folder;
  const std::string object = object_of("dog");
  const auto replaced = [&](const std::string& part, const std::string& instead) {
    std::string text = xml_of(object);
    return text.replace(text.find(part), part.size(), instead);
  };
  expect_says(folder.refusal(""), {"a.xml", "0 bytes"});
  expect_says(folder.refusal(xml_of(object).substr(0, 200)), {"a.xml: byte ", "no XML"});
  expect_says(folder.refusal("<html></html>"), {"no <annotation>"});
  expect_says(folder.refusal(replaced("<xmin>11</xmin>", "")), {"a.xml: object 1: no <xmin>"});
  expect_says(folder.refusal(replaced("11", "eleven")), {"object 1: <xmin> is `eleven`, not a number"});
  expect_says(folder.refusal(replaced("11", "nan")), {"object 1 (dog)", "no finite numbers"});
  expect_says(folder.refusal(replaced("11", "31")), {"object 1 (dog)", "width or height is not positive"});
  expect_says(folder.refusal(replaced("<name>dog</name>", "")), {"object 1: no <name>"});
  expect_says(folder.refusal(replaced("100", "wide")), {"a.xml: <width> is `wide`, not a number"});
  expect_says(folder.refusal(replaced("</bndbox></object>", "</bndbox><bndbox></bndbox></object>")),
              {"object 1: more than one <bndbox>", "fix: give each box an <object> of its own"});
  expect_says(folder.refusal(xml_of("<object><name>a</name><robndbox/></object>")),
              {"object 1: no <bndbox>", "fix: give the object a <bndbox> with <xmin>"});
  expect_says(folder.refusal(xml_of(object_of("a", "<difficult>perhaps</difficult>"))),
              {"object 1: <difficult> is `perhaps`, not a number"});
  expect_says(folder.refusal(xml_of(object_of("a", "<difficult>nan</difficult>"))), {"<difficult> is nan", "0 or 1"});
  expect_says(folder.refusal(xml_of("")), {"no object that trains"});
  expect_says(folder.refusal(std::string((16 << 20) + 1, ' ')), {"more than 16 MiB"});
  fs::remove(folder.path() / "Annotations/a.xml");
  expect_says(message_of<UsageError>([&] { read_annotations(folder.config(), Split::train); }),
              {"a.xml: there is no such file"});
}

// Nothing is expanded or fetched: the entity stays text, and so is the name of a class.
TEST(Voc, ExpandsNoEntities) {
  const std::string bomb = "<!DOCTYPE annotation [<!ENTITY a SYSTEM \"file:///etc/passwd\"><!ENTITY b \"&a;&a;\">]>" +
                           xml_of(object_of("&b;"));
  EXPECT_EQ(parse_voc(bomb, "a.xml").objects[0].name, "&b;");
  EXPECT_EQ(parse_voc(xml_of(object_of("cat &amp; dog")), "a.xml").objects[0].name, "cat & dog");
}

TEST(Voc, SurvivesDeepNesting) {
  std::string deep;
  for (int i = 0; i < 1'000'000; ++i) deep += "<a>";
  expect_says(message_of<UsageError>([&] { parse_voc(deep, "a.xml"); }), {"no XML"});
  for (int i = 0; i < 1'000'000; ++i) deep += "</a>";
  EXPECT_EQ(parse_voc(xml_of(deep), "a.xml").objects.size(), 0u);
}

TEST(Voc, LimitsTheObjectsOfAnImage) {
  std::string many;
  for (int i = 0; i < 100'001; ++i)
    many +=
        "<object><name>a</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax>"
        "<ymax>2</ymax></bndbox></object>";
  expect_says(message_of<UsageError>([&] { parse_voc(xml_of(many), "a.xml"); }), {"100,000 objects"});
}

TEST(Voc, RefusesNamesThatLeaveTheFolder) {
  const VocFolder folder;
  folder.image("a", xml_of(object_of("dog")));
  for (const char* name : {"../Annotations/a", "/etc/passwd"}) {
    folder.list("train", std::string(name) + "\n");
    expect_says(message_of<UsageError>([&] { read_annotations(folder.config(), Split::train); }),
                {"train.txt", "does not stay in the folder"});
  }
  folder.list("train", "a\n");
  write_text(folder.path() / "elsewhere.jpg", "x");
  fs::create_directories(folder.path() / "JPEGImages");
  fs::create_symlink("../elsewhere.jpg", folder.path() / "JPEGImages/a.jpg");
  expect_says(message_of<UsageError>([&] { read_annotations(folder.config(), Split::train); }), {"is a link out of"});
}

TEST(Voc, NeedsItsFoldersAndLists) {
  const VocFolder folder;
  const auto refusal = [&] { return message_of<UsageError>([&] { read_annotations(folder.config(), Split::train); }); };
  expect_says(refusal(), {"no folder ImageSets/Main"});
  folder.list("other", "a\n");
  expect_says(refusal(), {"no list for training", "data.sets"});
  folder.list("train", "\n");
  expect_says(refusal(), {"train.txt: an empty list"});
}

TEST(Voc, ReadsTheBloodCells) {
  const char* root = getenv("OCTET_BCCD");
  if (!root) GTEST_SKIP() << "set OCTET_BCCD to the folder of the blood cells to test with them";
  const Config config = config_of("voc", root);
  const Annotations train = read_annotations(config, Split::train);
  EXPECT_EQ(train.classes, (std::vector<std::string>{"Platelets", "RBC", "WBC"}));
  EXPECT_EQ(train.images.size(), 292u);
  EXPECT_EQ(read_annotations(config, Split::test).images.size(), 72u);
}

}  // namespace
}  // namespace octet

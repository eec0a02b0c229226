// Folders of images that were perhaps ordered for something else than octet reads.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "src/data/sources/folder_index.h"
#include "src/data/sources/split_folders.h"

namespace octet {

// Of data.root, whose folders are to be the classes, before they are listed. UsageError: it holds but one folder, which
// holds the data; or its folders are splits without folders of classes.
void require_classes_in(const std::filesystem::path& root);

// Of a split. UsageError: it holds but one folder, which holds several.
void require_classes_directly_in(const std::filesystem::path& split);

// A sentence for each doubt about a listed folder: classes that seem to be splits, or to hold splits, or to be the
// same. is_split: it is one itself, so that a class may have any name.
std::vector<std::string> doubts_about_classes(const FolderIndex&, bool is_split);

// A sentence for each folder that would be read for evaluation if it held images.
std::vector<std::string> doubts_about_empty_folders(const std::filesystem::path& root, const SplitFolders&);

// A sentence that names the folders beside that of training that hold images and are not read. Empty: there are none.
std::vector<std::string> doubts_about_unread_folders(const std::filesystem::path& root, const SplitFolders&);

// "a, b, `c ` and 4 more"
std::string some_of(const std::vector<std::string>& names);
// The same, with the nearest of the known names behind each that shares letters with it: "catt (nearest: `cat`), b"
std::string with_nearest(const std::vector<std::string>& names, const std::vector<std::string>& known);
// "2 folders (a, b), 12 .jpg, 1 without an ending": what is in a folder, without what is hidden.
std::string contents_of_folder(const std::filesystem::path& folder);

}  // namespace octet

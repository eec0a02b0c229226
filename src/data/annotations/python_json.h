// JSON as Python writes it.
#pragma once
#include <istream>
#include <streambuf>
#include <string>
#include <vector>

namespace octet {

// Passes a file on. NaN, Infinity and -Infinity, which JSON lacks, become texts: "NaN".
class PythonJson : public std::streambuf {
 public:
  explicit PythonJson(std::istream& source) : source_(source), block_(1 << 16) {}
  size_t added() const { return added_; }  // quotation marks, in what has been read so far

 protected:
  int_type underflow() override;

 private:
  void fill();
  size_t word_at(size_t place) const;  // the length of a word that becomes a text; 0: there is none
  size_t plain();                      // how many of the next characters stay as they are

  std::istream& source_;
  std::vector<char> block_;
  std::string quoted_;
  size_t next_ = 0, filled_ = 0, added_ = 0;
  bool in_text_ = false, escaped_ = false;
};

}  // namespace octet

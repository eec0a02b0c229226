// What a network's answers to a test set are worth.
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "comm/heart.h"
#include "comm/transport.h"
#include "src/graph/answers.h"

namespace octet {

struct ClassAnswers;
struct DetectionFigures;

// Judges one evaluation, in which every sample of the test set counts once. The task makes it, see Task::judge.
class Judge {
 public:
  virtual ~Judge() = default;
  virtual bool wants_probabilities() const { return false; }  // keep() reads Answers::probabilities
  // Takes the answers to a batch of this rank.
  void take(const Batch&, Answers);
  // Collective, after the last batch of all ranks. Error: no sample of the test set could be read.
  void finish(Transport&, Heart&);

  // After finish(), on every rank. The number of images of the test set that were judged.
  int64_t images() const { return int64_t(total_.front().count); }
  // The figures of the whole test set; -1: undefined.
  const Scalars& figures() const { return figures_; }
  // The first figure of each class that has objects; empty: classes are not judged.
  const Scalars& by_class() const { return by_class_; }
  virtual std::string table() const = 0;  // for people: the figures, and those of each class
  virtual std::string csv() const = 0;    // as RFC 4180 has it, with a line for each class
  virtual std::string json() const;       // one object, with the figures
  // What a page shows; null: the task has no such answers, or the judge did not keep them.
  virtual const ClassAnswers* class_answers() const { return nullptr; }
  virtual const DetectionFigures* detection_figures() const { return nullptr; }
  // Writes the answers to the run directory. What cannot be written is a warning. step: of the evaluation.
  virtual void write(const std::string& /*run_directory*/, int64_t /*step*/) const {}

 protected:
  virtual void keep(const Batch&, Answers&) {}
  // Collective. Sets figures_, which are the means of the plans' metrics, and by_class_.
  virtual void judge(Transport&, Heart&) {}
  Scalars figures_, by_class_;

 private:
  Metrics total_;  // of this rank, and after finish() of all
};

// Collective. Returns the items of all ranks on every rank, in the order of the images.
template <class Item>
std::vector<Item> gather(Transport& transport, std::vector<Item> own) {
  const auto size = size_t(transport.size());
  std::vector<uint64_t> counts(size);
  const uint64_t count = own.size();
  transport.all_gather(std::as_bytes(std::span(&count, 1)), std::as_writable_bytes(std::span(counts)));
  const uint64_t most = *std::ranges::max_element(counts);
  own.resize(most);
  std::vector<Item> padded(size * most), all;
  transport.all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(padded)));
  for (size_t rank = 0; rank < size; ++rank) {
    const auto first = padded.begin() + ptrdiff_t(rank * most);
    all.insert(all.end(), first, first + ptrdiff_t(counts[rank]));
  }
  std::ranges::stable_sort(all, {}, &Item::image);
  return all;
}

}  // namespace octet

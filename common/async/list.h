// An intrusive doubly linked list: nodes live in the objects that wait, so waiting allocates
// nothing, and a node leaves its list in O(1) when its owner is cancelled.
#ifndef HEADRACE_COMMON_ASYNC_LIST_H_
#define HEADRACE_COMMON_ASYNC_LIST_H_

#include "common/base/log.h"

namespace headrace {

// Base class of what can be in one list at a time: class X : public ListNode<X>. Another tag than X
// itself lets one class be in several lists.
template <typename Tag>
class ListNode {
 public:
  ListNode() = default;
  ~ListNode() { HR_CHECK(!linked()) << "a list node was destroyed while linked"; }
  ListNode(const ListNode&) = delete;
  ListNode& operator=(const ListNode&) = delete;

  bool linked() const { return next_ != nullptr; }
  // Does nothing when not linked.
  void Unlink() {
    if (!linked()) return;
    prev_->next_ = next_;
    next_->prev_ = prev_;
    prev_ = next_ = nullptr;
  }

 private:
  template <typename T, typename U>
  friend class List;

  ListNode* prev_ = nullptr;
  ListNode* next_ = nullptr;
};

// A list of T, which derives from ListNode<Tag>. Does not own its elements; must be empty when
// destroyed.
template <typename T, typename Tag = T>
class List {
 public:
  using Node = ListNode<Tag>;

  List() { head_.prev_ = head_.next_ = &head_; }
  ~List() {
    HR_CHECK(empty()) << "a list was destroyed with elements in it";
    head_.prev_ = head_.next_ = nullptr;
  }
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  bool empty() const { return head_.next_ == &head_; }
  T* front() { return empty() ? nullptr : static_cast<T*>(head_.next_); }
  // The element after `element`, nullptr at the end.
  T* Next(T* element) {
    Node* next = static_cast<Node*>(element)->next_;
    return next == &head_ ? nullptr : static_cast<T*>(next);
  }

  void PushBack(T* element) {
    Node* node = element;
    HR_CHECK(!node->linked());
    node->prev_ = head_.prev_;
    node->next_ = &head_;
    head_.prev_->next_ = node;
    head_.prev_ = node;
  }
  // The first element, now unlinked; nullptr when empty.
  T* PopFront() {
    T* element = front();
    if (element != nullptr) static_cast<Node*>(element)->Unlink();
    return element;
  }

 private:
  Node head_;
};

}  // namespace headrace

#endif  // HEADRACE_COMMON_ASYNC_LIST_H_

// A self-signed certificate for tests, made when asked for: nothing expires in the repository.
#ifndef HEADRACE_TESTS_SUPPORT_TEST_CERTIFICATE_H_
#define HEADRACE_TESTS_SUPPORT_TEST_CERTIFICATE_H_

#include <string>

namespace headrace {

// PEM files for "localhost" and 127.0.0.1 in a temporary directory, which goes with the object.
class TestCertificate {
 public:
  TestCertificate();
  ~TestCertificate();
  TestCertificate(const TestCertificate&) = delete;
  TestCertificate& operator=(const TestCertificate&) = delete;

  const std::string& cert_file() const { return cert_file_; }
  const std::string& key_file() const { return key_file_; }

 private:
  std::string directory_;
  std::string cert_file_;
  std::string key_file_;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_SUPPORT_TEST_CERTIFICATE_H_

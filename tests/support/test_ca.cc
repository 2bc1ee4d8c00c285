#include "tests/support/test_ca.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <atomic>
#include <cstdio>
#include <filesystem>

#include "common/base/log.h"

namespace headrace {
namespace {

void AddExtension(X509* issuer, X509* cert, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  HR_CHECK(extension != nullptr) << value;
  X509_add_ext(cert, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* MakeUnsigned(EVP_PKEY* key, const std::string& name) {
  static std::atomic<long> serial = 0;
  X509* cert = X509_new();
  X509_set_version(cert, 2);  // X.509 version 3
  ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert), 24 * 3600);
  X509_set_pubkey(cert, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return cert;
}

template <typename Write>
void WriteFile(const std::string& path, Write write) {
  const std::string part = path + ".part";
  FILE* file = fopen(part.c_str(), "w");
  HR_CHECK(file != nullptr) << part;
  HR_CHECK(write(file) == 1) << part;
  fclose(file);
  HR_CHECK(rename(part.c_str(), path.c_str()) == 0) << path;
}

void WriteCertificate(const std::string& path, X509* cert) {
  WriteFile(path, [cert](FILE* file) { return PEM_write_X509(file, cert); });
}

}  // namespace

TestCa::TestCa() {
  std::string pattern = std::filesystem::temp_directory_path() / "headrace_ca_XXXXXX";
  HR_CHECK(mkdtemp(pattern.data()) != nullptr);
  dir_ = pattern;
  ca_file_ = dir_ + "/ca.pem";
  key_ = EVP_EC_gen("P-256");
  HR_CHECK(key_ != nullptr);
  // A name of its own, so that two authorities are not taken for one.
  certificate_ = MakeUnsigned(key_, "ca " + dir_);
  X509_set_issuer_name(certificate_, X509_get_subject_name(certificate_));
  AddExtension(certificate_, certificate_, NID_basic_constraints, "critical,CA:TRUE");
  HR_CHECK(X509_sign(certificate_, key_, EVP_sha256()) > 0);
  WriteCertificate(ca_file_, certificate_);
}

TestCa::~TestCa() {
  X509_free(certificate_);
  EVP_PKEY_free(key_);
  std::error_code error;
  std::filesystem::remove_all(dir_, error);
}

TestCa::Files TestCa::Issue(const std::string& name, const std::string& alt_names) {
  Files files{dir_ + "/" + name + ".pem", dir_ + "/" + name + ".key"};
  EVP_PKEY* key = EVP_EC_gen("P-256");
  HR_CHECK(key != nullptr);
  X509* cert = MakeUnsigned(key, name);
  X509_set_issuer_name(cert, X509_get_subject_name(certificate_));
  if (!alt_names.empty()) {
    AddExtension(certificate_, cert, NID_subject_alt_name, alt_names.c_str());
  }
  HR_CHECK(X509_sign(cert, key_, EVP_sha256()) > 0);
  WriteFile(files.key, [key](FILE* file) {
    return PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
  WriteCertificate(files.cert, cert);
  X509_free(cert);
  EVP_PKEY_free(key);
  return files;
}

}  // namespace headrace

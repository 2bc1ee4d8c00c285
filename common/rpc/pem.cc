#include "common/rpc/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cerrno>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace headrace::rpc {
namespace {

// The CAs of a whole operating system are 250 KiB. Chosen, not measured.
constexpr size_t kMaxPemBytes = size_t{4} << 20;

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Freer<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES_free>>;

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("a certificate and its key belong together");
  std::ifstream file(path, std::ios::binary);
  if (!file) return ErrnoStatus(errno, path);
  std::string text(kMaxPemBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxPemBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is larger than 4 MiB"));
  }
  return text;
}

// A password would be asked for on the terminal.
int NoPassword(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*context*/) { return 0; }

absl::StatusOr<Certificate> ReadCertificate(const std::string& path) {
  HR_ASSIGN_OR_RETURN(const std::string text, ReadPem(path));
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (certificate == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(path, " holds no PEM certificate"));
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0) {
    HR_LOG(kWarning) << "the certificate in " << path << " has run out";
  } else if (X509_cmp_current_time(X509_get0_notBefore(certificate.get())) > 0) {
    HR_LOG(kWarning) << "the certificate in " << path << " is not valid yet";
  }
  return certificate;
}

std::string CommonName(X509* certificate) {
  char name[256];
  const int bytes = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                              name, sizeof(name));
  return bytes > 0 ? std::string(name, static_cast<size_t>(bytes)) : std::string();
}

}  // namespace

absl::Status CheckCertificates(const std::string& file) { return ReadCertificate(file).status(); }

absl::Status CheckKeyPair(const std::string& cert_file, const std::string& key_file) {
  HR_ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate(cert_file));
  HR_ASSIGN_OR_RETURN(const std::string text, ReadPem(key_file));
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  const PrivateKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  const bool fits = key != nullptr && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(key_file, " holds no PEM private key without a password"));
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the key in ", key_file, " is not that of the certificate in ", cert_file));
}

absl::StatusOr<std::string> NameInCertificate(const std::string& cert_file) {
  HR_ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate(cert_file));
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS && name->type != GEN_URI) continue;
    const ASN1_IA5STRING* text = name->d.ia5;
    return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                       static_cast<size_t>(ASN1_STRING_length(text)));
  }
  std::string common_name = names == nullptr ? CommonName(certificate.get()) : std::string();
  if (!common_name.empty()) return common_name;
  return absl::InvalidArgumentError(
      absl::StrCat("the certificate in ", cert_file, " names nobody: give --id"));
}

}  // namespace headrace::rpc

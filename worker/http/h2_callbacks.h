// The glue between nghttp2's C callbacks and H2Connection and H2Call.
#ifndef HEADRACE_WORKER_HTTP_H2_CALLBACKS_H_
#define HEADRACE_WORKER_HTTP_H2_CALLBACKS_H_

#include <nghttp2/nghttp2.h>

namespace headrace::http {

class H2Connection;

// A client session that tells `connection`; nullptr when out of memory.
nghttp2_session* NewH2Session(H2Connection* connection);

// The data source of a request whose stream's user data is its H2Call.
nghttp2_data_provider H2BodyProvider();

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_H2_CALLBACKS_H_

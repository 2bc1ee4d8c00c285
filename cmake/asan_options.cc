// What a program does under ASan unless ASAN_OPTIONS says otherwise: no poison of absl's. Its headers
// poison the empty slots of hash tables, and the distribution's library, which was built without
// ASan, would have to take the poison away when a table grows.
extern "C" const char* __asan_default_options() { return "allow_user_poisoning=0"; }

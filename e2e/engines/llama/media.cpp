// Images and sound are left out of this server: the library for them is large and no
// test sends any. These are what the server calls of it all the same. The rest of its
// functions end the process, see Makefile.
#include "mtmd.h"
#include "mtmd-helper.h"

mtmd_context_params mtmd_context_params_default(void) {
    return {};
}

mtmd_helper_init_opt mtmd_helper_init_opt_default(void) {
    return {};
}

void mtmd_helper_log_set(ggml_log_callback, void *) {}

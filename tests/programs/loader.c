//! Opens libraries while it runs and calls `run` of each.

#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** names)
{
    for (int n = 1; n < count; ++n) {
        void* library = dlopen(names[n], RTLD_NOW | RTLD_LOCAL);
        int (*run)(void) = library ? (int (*)(void))dlsym(library, "run") : NULL;
        if (!run) {
            puts(dlerror());
            return 9;
        }
        int code = run();
        if (code) return code;
    }
    return 0;
}

/* A full fence for Python code that shares memory with other processes.
   `memory_order.py` says where one is needed. Plain C without Python's headers. */

#include <stdint.h>

#define FORM 1 /* memory_order.py refuses another one */

int64_t kit_form(void)
{
    return FORM;
}

void kit_fence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

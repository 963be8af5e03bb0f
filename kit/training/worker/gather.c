/* Copy thousands of small arrays out of a dict: `gradient_buffer.py` says what for.

   The way to an array's bytes leads through the dict's entry, the array's header, its
   shape and the bytes, each in a line of memory that no cache holds. So they are asked
   of the memory some arrays ahead. Python's stable ABI and numpy's C API are all that
   is used. */

#define Py_LIMITED_API 0x030b0000 /* Python 3.11 and later */
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <string.h>

#if defined(__GNUC__)
#define ASK_FOR(address) __builtin_prefetch(address)
#else
#define ASK_FOR(address) ((void)(address))
#endif

enum { WINDOW = 32 };  /* entries that are looked at before they are needed */
enum { AHEAD = 16 };   /* arrays whose shape and bytes are asked for */
enum { LINE = 64 };    /* bytes that memory gives at a time */
enum { FIRST = 512 };  /* bytes of an array that are asked for; then the processor does */

typedef struct {
    PyObject *name, *value, *place_name, *place; /* borrowed */
} Entry;

static PyArrayObject *array(PyObject *object)
{
    return (PyArrayObject *)object;
}

static int fits(const Entry *entry)
{
    if (entry->name != entry->place_name || !PyArray_CheckExact(entry->value))
        return 0;
    PyArrayObject *one = array(entry->value), *place = array(entry->place);
    int n = PyArray_NDIM(place);
    return PyArray_DESCR(one) == PyArray_DESCR(place) && PyArray_NDIM(one) == n &&
           PyArray_CHKFLAGS(one, NPY_ARRAY_C_CONTIGUOUS) &&
           !memcmp(PyArray_DIMS(one), PyArray_DIMS(place), n * sizeof(npy_intp));
}

static void ask_for_bytes(const Entry *entry)
{
    if (!PyArray_CheckExact(entry->value))
        return;
    ASK_FOR(PyArray_DIMS(array(entry->value)));
    ASK_FOR(PyArray_DIMS(array(entry->place)));
    for (int at = 0; at < FIRST; at += LINE)
        ASK_FOR(PyArray_BYTES(array(entry->value)) + at);
}

static PyObject *gather(PyObject *module, PyObject *args)
{
    PyObject *values, *places;
    Py_ssize_t at, place_at = 0, seen = 0;
    Entry entries[WINDOW];

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!n", &PyDict_Type, &values, &PyDict_Type, &places,
                          &at))
        return NULL;
    Py_ssize_t n = PyDict_Size(places);
    for (Py_ssize_t done = 0; done < n; done++) {
        for (; seen < n && seen < done + WINDOW; seen++) {
            Entry *entry = entries + seen % WINDOW;
            if (!PyDict_Next(places, &place_at, &entry->place_name, &entry->place) ||
                !PyDict_Next(values, &at, &entry->name, &entry->value))
                return PyLong_FromLong(-1);
            ASK_FOR(entry->value);
            ASK_FOR((const char *)entry->value + LINE);
            ASK_FOR(entry->place);
            ASK_FOR((const char *)entry->place + LINE);
        }
        if (done + AHEAD < n)
            ask_for_bytes(entries + (done + AHEAD) % WINDOW);
        const Entry *entry = entries + done % WINDOW;
        if (!fits(entry))
            return PyLong_FromLong(-1);
        memmove(PyArray_BYTES(array(entry->place)), PyArray_BYTES(array(entry->value)),
                PyArray_NBYTES(array(entry->place)));
    }
    return PyLong_FromSsize_t(at);
}

static PyMethodDef functions[] = {
    {"gather", gather, METH_VARARGS,
     "gather(values, places, position) -> position\n\n"
     "Copy the values of a dict from a position on into the arrays of another one.\n"
     "Returns the position behind them; -1 if a value has another name than its place\n"
     "or is no contiguous array of its shape and dtype. Some may be copied then."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_gather", NULL, -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__gather(void)
{
    import_array();
    return PyModule_Create(&definition);
}

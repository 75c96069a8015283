/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embed.c -- a C program that embeds a Python interpreter.
 *
 * Runs the file given as its argument.
 */
#include <Python.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    FILE *file = fopen(argv[1], "r");
    if (!file)
        return 2;
    Py_Initialize();
    int rc = PyRun_SimpleFile(file, argv[1]);
    (void)fclose(file);
    return rc ? 1 : 0;
}

static int run_shared(${name}_pool *pool, const ${name}_function *function, const void *constants,
                      void *tensors, void *arena)
{
${cases}    return function->run(constants, tensors, arena${sizes});
}

// c = a * b, square matrices of n rows, by tiles in shared memory
#define TILE 16

extern "C" __global__ void matrix_product(const float *a, const float *b, float *c, int n)
{
    __shared__ float left[TILE][TILE];
    __shared__ float right[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;

    for (int tile = 0; tile < n; tile += TILE) {
        left[y][x] = row < n && tile + x < n ? a[row * n + tile + x] : 0;
        right[y][x] = tile + y < n && column < n ? b[(tile + y) * n + column] : 0;
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            sum += left[y][k] * right[k][x];
        __syncthreads();
    }
    if (row < n && column < n)
        c[row * n + column] = sum;
}

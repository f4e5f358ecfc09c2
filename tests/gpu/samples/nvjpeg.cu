// nvJPEG: an image encoded and decoded
// nvcc: -lnvjpeg
#include "sample.h"
#include <nvjpeg.h>

int main()
{
    const int width = 160, height = 96;
    std::vector<unsigned char> pixels(3 * width * height);
    for (int i = 0; i < width * height; i++)
        for (int c = 0; c < 3; c++)
            pixels[3 * i + c] = (i % width + (c + 1) * (i / width)) % 256;
    unsigned char *in = upload(pixels), *out = allocate<unsigned char>(pixels.size());
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    nvjpegHandle_t handle;
    nvjpegEncoderState_t encoder;
    nvjpegEncoderParams_t parameters;
    nvjpegJpegState_t decoder;
    ZERO(nvjpegCreateSimple(&handle));
    ZERO(nvjpegEncoderStateCreate(handle, &encoder, stream));
    ZERO(nvjpegEncoderParamsCreate(handle, &parameters, stream));
    ZERO(nvjpegEncoderParamsSetQuality(parameters, 92, stream));
    ZERO(nvjpegEncoderParamsSetSamplingFactors(parameters, NVJPEG_CSS_444, stream));
    nvjpegImage_t image = {};
    image.channel[0] = in;
    image.pitch[0] = 3 * width;
    ZERO(nvjpegEncodeImage(handle, encoder, parameters, &image, NVJPEG_INPUT_RGBI, width, height, stream));
    size_t size;
    ZERO(nvjpegEncodeRetrieveBitstream(handle, encoder, nullptr, &size, stream));
    std::vector<unsigned char> encoded(size);
    ZERO(nvjpegEncodeRetrieveBitstream(handle, encoder, encoded.data(), &size, stream));
    CHECK(cudaStreamSynchronize(stream));
    encoded.resize(size);
    print("encoded", encoded);
    ZERO(nvjpegJpegStateCreate(handle, &decoder));
    image.channel[0] = out;
    ZERO(nvjpegDecode(handle, decoder, encoded.data(), size, NVJPEG_OUTPUT_RGBI, &image, stream));
    CHECK(cudaStreamSynchronize(stream));
    std::vector<unsigned char> decoded = download(out, pixels.size());
    double error = 0;
    for (size_t i = 0; i < pixels.size(); i++)
        error += abs(decoded[i] - pixels[i]) / double(pixels.size());
    REQUIRE(error < 20);
    print("decoded", decoded);
    return 0;
}
